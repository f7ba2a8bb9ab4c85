"""Programs with several meshes, sharded constants and the like."""

from __future__ import annotations

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from tests.lifting.sharding.automatic import host_compute_function
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
def explicit_indexing() -> Program:
    mesh = explicit_mesh()

    def f(x: Any, ids: Any) -> Any:
        taken = x.at[ids].get(out_sharding=P("x", None))
        one_hot = jax.nn.one_hot(ids, 4)
        joined = jnp.concatenate([taken, taken], axis=1)
        return (
            joined[:, :3] * 2,
            one_hot,
            jnp.sort(taken, axis=1),
            jnp.where(ids > 2, ids, 0),
        )

    with jax.set_mesh(mesh):
        args = (
            jax.device_put(floats(16, 4), P(None, None)),
            jax.device_put(np.arange(8), P("x")),
        )
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def explicit_einsum_transposed() -> Program:
    mesh = explicit_mesh()

    def f(q: Any, k: Any) -> Any:
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
        return jax.nn.softmax(scores, axis=-1).transpose(0, 2, 1, 3)

    with jax.set_mesh(mesh):
        q = jax.device_put(floats(4, 3, 2, 8), P("x", None, "y", None))
    return Program(jax.jit(f), (q, q), jax.set_mesh(mesh))


@program
def explicit_random_loop() -> Program:
    mesh = explicit_mesh()

    def f(x: Any, key: Any) -> Any:
        def body(i: Any, x: Any) -> Any:
            noise = jax.random.normal(
                jax.random.fold_in(key, i), (8, 4), out_sharding=P("x", "y")
            )
            return x + noise

        return jax.lax.fori_loop(0, 3, body, x)

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(8, 4), P("x", "y")), jax.random.key(0))
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def ambient_metadata() -> Program:
    from jax.experimental.xla_metadata import set_xla_metadata

    return Program(
        lambda x: jnp.sin(x) * 2, (floats(4),), set_xla_metadata(stage="all")
    )


@program
def size_one_axes() -> Program:
    mesh = explicit_mesh((1, 4))
    stack = contextlib.ExitStack()

    def f(x: Any) -> Any:
        return jnp.sin(x) * 2

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(8, 4), P("x", "y")),)

    @contextlib.contextmanager
    def context() -> Any:
        with stack, jax.remove_size_one_mesh_axis_from_type(True), jax.set_mesh(mesh):
            yield

    return Program(jax.jit(f), args, context())


@program
def half_of_the_devices() -> Program:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("a", "b"))
    other = jax.sharding.Mesh(
        np.array([jax.devices()[i] for i in (5, 2, 7, 1)]), ("c",)
    )

    def f(x: Any) -> Any:
        y = jax.device_put(x, NamedSharding(mesh, P("a", "b")))
        return jax.device_put(y * 2, NamedSharding(other, P("c")))

    return Program(f, (floats(4, 4),))


@program
def two_meshes() -> Program:
    first, second = auto_mesh(), auto_mesh((2, 4))

    def f(x: Any) -> Any:
        y = jax.shard_map(
            jnp.sin, mesh=first, in_specs=P("x", "y"), out_specs=P("x", "y")
        )(x)
        return jax.shard_map(jnp.cos, mesh=second, in_specs=P("y"), out_specs=P("y"))(y)

    return Program(f, (floats(8, 8),))


@program
def name_of_a_mesh_is_taken() -> Program:
    named = auto_mesh((8,), ("i",))

    def f(mesh: Any) -> Any:
        return jax.shard_map(jnp.sin, mesh=named, in_specs=P("i"), out_specs=P("i"))(
            mesh
        )

    return Program(f, (floats(8),))


@program
def host_offload_grad() -> Program:
    mesh = auto_mesh()
    host = NamedSharding(mesh, P("x"), memory_kind="pinned_host")
    device = NamedSharding(mesh, P("x"), memory_kind="device")

    def f(w: Any, x: Any) -> Any:
        return jnp.sum(jnp.tanh(x @ jax.device_put(w, device)))

    w = jax.device_put(floats(4, 4), host)
    grad = jax.jit(jax.grad(f), in_shardings=(host, device), out_shardings=device)
    return Program(grad, (w, put(floats(8, 4), mesh, "x")))


@program
def closed_over_in_order() -> Program:
    mesh = auto_mesh((8,), ("i",))

    def f(x: Any, a: Any, b: Any) -> Any:
        y, z = jnp.sin(a), jnp.cos(b)

        def body(v: Any) -> Any:
            return jax.lax.psum(v * z + y, "i") + y

        return jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P())(x)

    return Program(f, (floats(16), np.float32(1), np.float32(2)))


@program
def no_results_and_no_arguments() -> Program:
    mesh = auto_mesh((8,), ("i",))

    def f() -> Any:
        return jax.shard_map(
            lambda: jax.lax.axis_index("i")[None],
            mesh=mesh,
            in_specs=(),
            out_specs=P("i"),
        )()

    return Program(f, ())


@program
def host_compute_grad() -> Program:
    base = host_compute_function()
    return Program(jax.jit(jax.grad(lambda x: base.function(x).sum())), base.args)


@program
def explicit_fill() -> Program:
    mesh = explicit_mesh()

    def f(x: Any) -> Any:
        return x + jnp.zeros((8, 4), out_sharding=P("x", "y")) + jnp.ones_like(x)

    return Program(jax.jit(f), (put(floats(8, 4), mesh, "x", "y"),), jax.set_mesh(mesh))


@program
def sharded_key() -> Program:
    mesh = auto_mesh((8,), ("i",))
    keys = jax.random.split(jax.random.key(1), 8)

    def body(keys: Any) -> Any:
        return jax.vmap(lambda key: jax.random.normal(key, (3,)))(keys)

    f = jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    return Program(f, (jax.device_put(keys, NamedSharding(mesh, P("i"))),))


@program
def custom_jvp_inside() -> Program:
    mesh = auto_mesh((8,), ("i",))

    @jax.custom_jvp
    def scaled(x: Any) -> Any:
        return x / jax.lax.psum(x, "i")

    @scaled.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        total = jax.lax.psum(x, "i")
        return x / total, t / total

    f = jax.shard_map(scaled, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    return Program(
        lambda x: (f(x), jax.grad(lambda v: f(v).sum())(x)), (floats(16) + 1,)
    )


@program
def empty_axis_tuple() -> Program:
    mesh = auto_mesh((8,), ("i",))

    def body(x: Any) -> Any:
        return {"a": jax.lax.pmean(x, "i"), "b": ()}

    f = jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P())
    return Program(f, (floats(16),))
