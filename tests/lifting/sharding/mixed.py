"""Programs that combine sharding with transformations and loops."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

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
def sharded_constant() -> Program:
    mesh = explicit_mesh()
    table = put(floats(8, 4), mesh, "x", None)
    x = put(floats(8, 4), mesh, "x", None)
    return Program(jax.jit(lambda x: x * table + 1), (x,), jax.set_mesh(mesh))


@program
def sharded_large_constant() -> Program:
    mesh = explicit_mesh()
    table = put(np.sin(floats(64, 4)), mesh, "x", None)
    x = put(floats(64, 4), mesh, "x", None)
    return Program(jax.jit(lambda x: x * table + 1), (x,), jax.set_mesh(mesh))


@program
def jit_specs() -> Program:
    mesh = auto_mesh()
    f = jax.jit(
        lambda x, y: (x @ y, x + 1), in_shardings=(P("x"), P()), out_shardings=P("x")
    )
    return Program(
        lambda x, y: f(x * 2, y), (floats(8, 4), floats(4, 4)), jax.set_mesh(mesh)
    )


@program
def jit_trees() -> Program:
    mesh = auto_mesh()
    rows = NamedSharding(mesh, P("x"))

    @functools.partial(
        jax.jit,
        in_shardings=(rows, None),
        out_shardings=(rows, None),
        donate_argnums=0,
        keep_unused=True,
    )
    def step(state: Any, batch: Any) -> Any:
        return jax.tree.map(lambda s: s + batch["x"].sum(), state), batch["y"] * 2

    state = {"w": floats(8, 4), "b": floats(8)}
    return Program(step, (state, {"x": floats(3), "y": floats(2)}))


@program
def jit_layouts() -> Program:
    from jax.experimental.layout import Format, Layout

    mesh = auto_mesh()
    wanted = Format(Layout(major_to_minor=(1, 0)), NamedSharding(mesh, P("x")))
    f = jax.jit(lambda x: x * 2, in_shardings=wanted, out_shardings=wanted)
    return Program(lambda x: f(x + 1), (floats(8, 4),))


@program
def shard_map_in_scan() -> Program:
    mesh = auto_mesh((8,), ("i",))

    def f(x: Any, ws: Any) -> Any:
        def layer(x: Any, w: Any) -> Any:
            y = jax.shard_map(
                lambda b, w: jnp.tanh(b * w),
                mesh=mesh,
                in_specs=(P("i"), P()),
                out_specs=P("i"),
            )(x, w)
            return y, y.sum()

        return jax.lax.scan(layer, x, ws)

    return Program(f, (floats(16), floats(3)))


@program
def shard_map_in_scan_grad() -> Program:
    base = shard_map_in_scan()
    return Program(
        jax.grad(lambda x, w: base.function(x, w)[0].sum(), (0, 1)), base.args
    )


@program
def shard_map_remat_jvp() -> Program:
    mesh = auto_mesh((8,), ("i",))

    @functools.partial(jax.shard_map, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    def f(x: Any) -> Any:
        return jax.checkpoint(lambda v: jnp.sin(jnp.cos(v)))(x)

    return Program(lambda x: jax.jvp(jax.checkpoint(f), (x,), (x,)), (floats(16),))


@program
def while_inside() -> Program:
    mesh = auto_mesh((8,), ("i",))

    def body(x: Any) -> Any:
        def cond(state: Any) -> Any:
            return jax.lax.psum(state.sum(), "i") < 100

        return jax.lax.while_loop(cond, lambda s: s * 2 + 1, x)

    return Program(
        jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i")), (floats(16),)
    )


@program
def jit_inside() -> Program:
    mesh = auto_mesh((8,), ("i",))
    inner = jax.jit(lambda x: jax.lax.psum(x, "i") * 2)
    f = jax.shard_map(
        lambda x: inner(x) + inner(x * 3), mesh=mesh, in_specs=P("i"), out_specs=P()
    )
    return Program(f, (floats(16),))


@program
def vmapped_shard_map_explicit() -> Program:
    mesh = explicit_mesh()
    f = jax.shard_map(
        lambda b: jnp.sin(b) * 2,
        mesh=mesh,
        in_specs=P("y"),
        out_specs=P("y"),
        axis_names={"y"},
    )

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(8, 4), P("x", "y")),)
    return Program(jax.jit(jax.vmap(f, spmd_axis_name="x")), args, jax.set_mesh(mesh))


@program
def nested_no_vma() -> Program:
    mesh = auto_mesh()

    def inner(b: Any) -> Any:
        return jax.lax.psum(b, "y")

    def outer(b: Any) -> Any:
        b = jax.lax.psum(b, "x")
        return jax.shard_map(
            inner,
            in_specs=P(None, "y"),
            out_specs=P(),
            axis_names={"y"},
            check_vma=False,
        )(b)

    def f(x: Any) -> Any:
        return jax.shard_map(
            outer,
            mesh=mesh,
            in_specs=P("x"),
            out_specs=P(),
            axis_names={"x"},
            check_vma=False,
        )(x)

    return Program(jax.jit(f), (floats(8, 4),))


@program
def ragged_exchange() -> Program:
    mesh = auto_mesh((2,), ("i",))

    def body(x: Any, out: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        return jax.lax.ragged_all_to_all(x, out, a, b, c, d, axis_name="i")

    f = jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    sizes = np.ones(4, np.int32)
    return Program(f, (floats(8), floats(8), sizes, sizes, sizes, sizes))


@program
def unreduced_collectives() -> Program:
    mesh = explicit_mesh((4,), ("x",))

    def body(x: Any) -> Any:
        u = jax.lax.pcast(x, "x", to="unreduced")
        return jax.lax.psum(u, "x"), jax.lax.psum_scatter(u, "x", tiled=True)

    def f(x: Any) -> Any:
        return jax.shard_map(body, in_specs=P("x"), out_specs=(P(None), P("x")))(x)

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(16), P("x")),)
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def gather_reduced() -> Program:
    mesh = explicit_mesh((4,), ("x",))

    def body(x: Any) -> Any:
        return jax.lax.all_gather(x, "x", tiled=True, to="reduced")

    def f(x: Any) -> Any:
        return jax.shard_map(body, in_specs=P("x"), out_specs=P(None, reduced={"x"}))(x)

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(16), P("x")),)
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def explicit_mlp_grad() -> Program:
    mesh = explicit_mesh()

    def loss(params: Any, x: Any) -> Any:
        x = jax.nn.relu(
            jnp.dot(x, params["w"], out_sharding=P("x", None)) + params["b"]
        )
        x = jax.nn.softmax(x, axis=-1)
        return jnp.mean(x**2)

    with jax.set_mesh(mesh):
        params = {
            "w": jax.device_put(floats(4, 8), P(None, None)),
            "b": jax.device_put(floats(8), P(None)),
        }
        x = jax.device_put(floats(8, 4), P("x", None))
    return Program(jax.jit(jax.value_and_grad(loss)), (params, x), jax.set_mesh(mesh))
