"""Programs with shard_map: specs, nesting, sub-programs, pmap."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding

from tests.lifting.sharding.base import P, Program, auto_mesh, floats, program


@program
def closed_over_values() -> Program:
    mesh = auto_mesh((8,), ("i",))
    table = jnp.arange(4.0)

    def f(x: Any, scale: Any) -> Any:
        return jax.shard_map(
            lambda b: b * scale + table.sum(),
            mesh=mesh,
            in_specs=P("i"),
            out_specs=P("i"),
        )(x)

    return Program(f, (floats(16), np.float32(3.0)))


@program
def pytree_specs() -> Program:
    mesh = auto_mesh((8,), ("i",))

    def body(tree: Any, scale: Any) -> Any:
        return {"sum": jax.lax.psum(tree["a"], "i"), "b": tree["b"] * scale}

    f = jax.shard_map(
        body,
        mesh=mesh,
        in_specs=({"a": P("i"), "b": P(None, "i")}, P()),
        out_specs={"sum": P(), "b": P(None, "i")},
    )
    return Program(f, ({"a": floats(16), "b": floats(2, 8)}, np.float32(2)))


@program
def partial_manual() -> Program:
    mesh = auto_mesh()

    def f(x: Any) -> Any:
        y = jax.shard_map(
            lambda b: jax.lax.psum(jnp.sin(b), "x"),
            mesh=mesh,
            in_specs=P("x"),
            out_specs=P(),
            axis_names={"x"},
        )(x)
        return y * 2

    return Program(jax.jit(f), (floats(8, 4),))


@program
def partial_manual_constraint() -> Program:
    mesh = auto_mesh()

    def body(b: Any) -> Any:
        inner = jax.sharding.get_abstract_mesh()
        b = jax.lax.with_sharding_constraint(b, NamedSharding(inner, P(None, "y")))
        return jnp.cos(b)

    def f(x: Any) -> Any:
        return jax.shard_map(
            body, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"}
        )(x)

    return Program(jax.jit(f), (floats(8, 4),))


@program
def nested() -> Program:
    mesh = auto_mesh()

    def inner(b: Any) -> Any:
        return jnp.sin(b) + jax.lax.axis_index("y")

    def outer(b: Any) -> Any:
        b = jax.lax.psum(b, "x")
        return jax.shard_map(
            inner, in_specs=P(None, "y"), out_specs=P(None, "y"), axis_names={"y"}
        )(b)

    def f(x: Any) -> Any:
        return jax.shard_map(
            outer, mesh=mesh, in_specs=P("x"), out_specs=P(), axis_names={"x"}
        )(x)

    return Program(jax.jit(f), (floats(8, 4),))


@program
def nested_grad() -> Program:
    base = nested()
    return Program(jax.grad(lambda x: base.function(x).sum()), base.args)


@program
def abstract_mesh_argument() -> Program:
    mesh = jax.sharding.AbstractMesh((4,), ("i",), axis_types=(AxisType.Auto,))

    def f(x: Any) -> Any:
        return jax.shard_map(jnp.sin, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(x)

    return Program(f, (jax.ShapeDtypeStruct((8,), jnp.float32),))


@program
def spmd_vmap() -> Program:
    mesh = auto_mesh()
    f = jax.shard_map(
        lambda b: jax.lax.psum(b, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()
    )
    return Program(jax.jit(jax.vmap(f, spmd_axis_name="y")), (floats(2, 8),))


@program
def vmap_collectives() -> Program:
    def body(x: Any) -> Any:
        return jax.lax.psum(x, "b") + jax.lax.axis_index("b") * jax.lax.pmax(x, "b")

    return Program(jax.vmap(body, axis_name="b"), (floats(4, 3),))


@program
def scan_inside() -> Program:
    mesh = auto_mesh((8,), ("i",))

    def body(x: Any) -> Any:
        def step(carry: Any, y: Any) -> Any:
            total = carry + jax.lax.psum(y, "i")
            return total, y * 2

        total, ys = jax.lax.scan(step, jnp.float32(0), x)
        return total, ys

    f = jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=(P(), P("i")))
    return Program(f, (floats(16),))


@program
def cond_inside() -> Program:
    mesh = auto_mesh((8,), ("i",))

    def body(x: Any) -> Any:
        return jax.lax.cond(jax.lax.axis_index("i") < 4, jnp.sin, lambda v: v * 3, x)

    f = jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    return Program(f, (floats(16),))


@program
def custom_rule_inside() -> Program:
    mesh = auto_mesh((8,), ("i",))

    @jax.custom_vjp
    def reduce(x: Any) -> Any:
        return jax.lax.psum(x, "i")

    def forward(x: Any) -> Any:
        return reduce(x), None

    def backward(_: None, g: Any) -> Any:
        return (jax.lax.pcast(g, "i", to="varying"),)

    reduce.defvjp(forward, backward)
    f = jax.shard_map(
        lambda b: reduce(jnp.sin(b)), mesh=mesh, in_specs=P("i"), out_specs=P()
    )
    return Program(f, (floats(16),))


@program
def relu_inside() -> Program:
    mesh = auto_mesh((8,), ("i",))
    f = jax.shard_map(
        lambda b: jax.nn.relu(b) + jax.nn.softmax(b),
        mesh=mesh,
        in_specs=P("i"),
        out_specs=P("i"),
    )
    return Program(f, (floats(16),))


@program
def random_inside() -> Program:
    mesh = auto_mesh((8,), ("i",))

    def body(key: Any) -> Any:
        key = jax.random.fold_in(key, jax.lax.axis_index("i"))
        return jax.random.normal(key, (4,))

    f = jax.shard_map(body, mesh=mesh, in_specs=P(), out_specs=P("i"))
    return Program(f, (jax.random.key(0),))


@program
def smap() -> Program:
    mesh = auto_mesh()

    def f(x: Any) -> Any:
        return jax.smap(lambda b: jnp.sin(b), in_axes=0, out_axes=0, axis_name="x")(x)

    return Program(jax.jit(f), (floats(8, 4),), jax.set_mesh(mesh))


@program
def pmapped() -> Program:
    def step(x: Any, w: Any) -> Any:
        return jax.lax.psum(x * w, "i") + jax.lax.axis_index("i")

    return Program(
        jax.pmap(step, axis_name="i", in_axes=(0, None)), (floats(8, 3), np.float32(2))
    )


@program
def pmapped_grad() -> Program:
    def step(w: Any, x: Any) -> Any:
        grads = jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)
        return w - 0.1 * jax.lax.pmean(grads, "i")

    return Program(jax.pmap(step, axis_name="i"), (floats(8, 3), floats(8, 2, 3)))
