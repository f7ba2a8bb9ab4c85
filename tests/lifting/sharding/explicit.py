"""Programs whose types say how arrays are sharded."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding

from tests.lifting.sharding.base import (
    P,
    Program,
    auto_mesh,
    explicit_mesh,
    floats,
    program,
    put,
)


@program
def explicit_add() -> Program:
    mesh = explicit_mesh()

    def f(x: Any, y: Any) -> Any:
        return x + y * 2.0

    with jax.set_mesh(mesh):
        args = (
            jax.device_put(floats(8, 4), P("x", "y")),
            jax.device_put(floats(8, 4), P("x", "y")),
        )
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def explicit_matmul() -> Program:
    mesh = explicit_mesh()

    def f(x: Any, w: Any) -> Any:
        return jnp.sin(jnp.dot(x, w, out_sharding=P("x")))

    with jax.set_mesh(mesh):
        args = (
            jax.device_put(floats(8, 4), P("x", "y")),
            jax.device_put(floats(4, 4), P("y")),
        )
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def explicit_matmul_grad() -> Program:
    base = explicit_matmul()
    return Program(
        jax.jit(jax.grad(lambda x, w: base.function(x, w).sum())),
        base.args,
        base.context,
    )


@program
def explicit_reshard() -> Program:
    mesh = explicit_mesh()

    def f(x: Any) -> Any:
        y = jax.sharding.reshard(x, P("x", None))
        return y.reshape(8, 2, 2) + jnp.zeros((8, 2, 2), out_sharding=P("x"))

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(8, 4), P("x", "y")),)
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def explicit_creation() -> Program:
    mesh = explicit_mesh()

    def f(x: Any) -> Any:
        a = jnp.arange(8, out_sharding=P("x"))
        b = jax.random.uniform(jax.random.key(0), (8, 4), out_sharding=P("x", "y"))
        return x + a[:, None] + b + jnp.full((8, 4), 2.0, out_sharding=P("x", "y"))

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(8, 4), P("x", "y")),)
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def explicit_auto_axes() -> Program:
    mesh = explicit_mesh()

    @functools.partial(jax.sharding.auto_axes, out_sharding=P("x", "y"))
    def inner(a: Any, b: Any) -> Any:
        return jnp.sin(a) @ b.T @ b

    def f(a: Any, b: Any) -> Any:
        return inner(a, b) * 2

    with jax.set_mesh(mesh):
        args = (
            jax.device_put(floats(8, 4), P("x", "y")),
            jax.device_put(floats(4, 4), P("y")),
        )
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def explicit_axes_inside_auto() -> Program:
    mesh = auto_mesh()

    @functools.partial(jax.sharding.explicit_axes, in_sharding=P("x", "y"))
    def inner(a: Any) -> Any:
        return jnp.sin(a) * 2

    return Program(jax.jit(lambda a: inner(a) + 1), (floats(8, 4),), jax.set_mesh(mesh))


@program
def explicit_eager_mesh() -> Program:
    """Explicit types without a mesh in the context."""
    mesh = explicit_mesh()
    return Program(
        lambda x: jnp.sin(x) * 2 + x.T.T, (put(floats(8, 4), mesh, "x", "y"),)
    )


@program
def explicit_scan_layers() -> Program:
    mesh = explicit_mesh()

    def f(x: Any, weights: Any) -> Any:
        def layer(carry: Any, w: Any) -> Any:
            return jnp.tanh(jnp.dot(carry, w, out_sharding=P("x", None))), carry.sum()

        return jax.lax.scan(layer, x, weights)

    with jax.set_mesh(mesh):
        args = (
            jax.device_put(floats(8, 4), P("x", None)),
            jax.device_put(floats(3, 4, 4), P()),
        )
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def explicit_vmap() -> Program:
    mesh = explicit_mesh()

    def f(x: Any) -> Any:
        return jax.vmap(lambda row: jnp.cumsum(jnp.sin(row)))(x)

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(8, 4), P("x", None)),)
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def explicit_shard_map() -> Program:
    mesh = explicit_mesh()

    def f(x: Any) -> Any:
        return jax.shard_map(
            lambda b: jax.lax.psum(jnp.sin(b), "x"),
            in_specs=P("x", "y"),
            out_specs=P(None, "y"),
        )(x)

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(8, 4), P("x", "y")),)
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def explicit_partial_manual() -> Program:
    mesh = explicit_mesh()

    def f(x: Any) -> Any:
        return jax.shard_map(
            lambda b: jax.lax.psum(jnp.sin(b), "x"),
            in_specs=P("x"),
            out_specs=P(),
            axis_names={"x"},
        )(x)

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(8, 4), P("x", "y")),)
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def explicit_unreduced() -> Program:
    mesh = explicit_mesh((2, 2))

    def f(x: Any, y: Any) -> Any:
        z = jnp.einsum("ab,bc->ac", x, y, out_sharding=P(None, None, unreduced={"x"}))
        return jax.sharding.reshard(z, P(None, None))

    with jax.set_mesh(mesh):
        args = (
            jax.device_put(floats(4, 4), P(None, "x")),
            jax.device_put(floats(4, 4), P("x", None)),
        )
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def unreduced_manual() -> Program:
    mesh = explicit_mesh((4,), ("x",))

    def body(x: Any) -> Any:
        return jax.lax.pcast(x, "x", to="unreduced")

    def f(x: Any) -> Any:
        y = jax.shard_map(body, in_specs=P("x"), out_specs=P(None, unreduced={"x"}))(x)
        return jax.sharding.reshard(y, P(None))

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(4), P("x")),)
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def reduced_cast() -> Program:
    mesh = explicit_mesh((4,), ("x",))

    def body(x: Any, y: Any) -> Any:
        x = jax.lax.pcast(x, "x", to="reduced")
        x = jax.lax.pcast(x, "x", to="varying")
        return x * y

    def f(x: Any, y: Any) -> Any:
        return jax.shard_map(body, in_specs=(P(), P("x")), out_specs=P("x"))(x, y)

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(2), P()), jax.device_put(floats(8), P("x")))
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def mixed_axis_types() -> Program:
    mesh = jax.make_mesh(
        (4, 2), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto)
    )

    def f(x: Any) -> Any:
        return jnp.sin(x) @ x.T

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(8, 8), P("x", None)),)
    f_ = lambda x: jnp.sin(x) * x
    return Program(jax.jit(f_), args, jax.set_mesh(mesh))


@program
def abstract_mesh_context() -> Program:
    mesh = jax.sharding.AbstractMesh(
        (4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2
    )
    aval = jax.ShapeDtypeStruct(
        (8, 4), jnp.float32, sharding=NamedSharding(mesh, P("x", "y"))
    )
    return Program(
        lambda x: jnp.sin(x) + 1.0, (aval,), jax.sharding.use_abstract_mesh(mesh)
    )
