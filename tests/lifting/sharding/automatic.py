"""Programs with shardings as hints: constraints, jit, devices, memories."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import NamedSharding

from tests.lifting.sharding.base import P, Program, auto_mesh, floats, program, put


@program
def sharding_constraint() -> Program:
    mesh = auto_mesh()

    def f(x: Any) -> Any:
        y = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P("x", "y")))
        z = jax.lax.with_sharding_constraint(y @ y.T, NamedSharding(mesh, P(None, "x")))
        return jax.lax.with_sharding_constraint(
            z, NamedSharding(mesh, P(P.UNCONSTRAINED, "y"))
        )

    return Program(jax.jit(f), (floats(8, 8),))


@program
def sharding_constraint_grad() -> Program:
    base = sharding_constraint()
    return Program(jax.jit(jax.grad(lambda x: base.function(x).sum())), base.args)


@program
def constraint_by_spec() -> Program:
    mesh = auto_mesh()

    def f(x: Any) -> Any:
        return jax.lax.with_sharding_constraint(jnp.sin(x), P("x", None)) * 2

    return Program(jax.jit(f), (floats(8, 8),), jax.set_mesh(mesh))


@program
def jit_shardings() -> Program:
    mesh = auto_mesh()
    rows, both = NamedSharding(mesh, P("x")), NamedSharding(mesh, P("x", "y"))
    predict = jax.jit(
        lambda x, w: jnp.tanh(x @ w), in_shardings=(rows, None), out_shardings=both
    )
    return Program(lambda x, w: predict(x, w) + 1, (floats(8, 4), floats(4, 2)))


@program
def jit_out_shardings() -> Program:
    mesh = auto_mesh()
    both = NamedSharding(mesh, P("x", "y"))
    make = jax.jit(lambda x: (x + 1, x * 2), out_shardings=(both, None))
    return Program(lambda x: make(x), (floats(8, 4),))


@program
def sharded_mlp_step() -> Program:
    mesh = auto_mesh((4, 2), ("batch", "model"))
    shard = lambda *spec: NamedSharding(mesh, P(*spec))

    def loss(params: Any, x: Any) -> Any:
        for w, b in params:
            x = jnp.tanh(x @ w + b)
            x = jax.lax.with_sharding_constraint(x, shard("batch", "model"))
        return jnp.mean(x**2)

    params = [(floats(8, 8), floats(8)), (floats(8, 4), floats(4))]
    return Program(
        jax.jit(jax.value_and_grad(loss)), (params, put(floats(16, 8), mesh, "batch"))
    )


@program
def donated() -> Program:
    step = jax.jit(lambda s, g: s - g, donate_argnums=0)
    return Program(lambda s, g: step(s * 2, g), (floats(4), floats(4)))


@program
def device_put_device() -> Program:
    device = jax.devices()[3]
    return Program(lambda x: jax.device_put(x, device) * 2, (floats(4),))


@program
def device_put_shardings() -> Program:
    mesh = auto_mesh()

    def f(x: Any, y: Any) -> Any:
        a = jax.device_put(x, NamedSharding(mesh, P("x")))
        b, c = jax.device_put(
            (x, y), (NamedSharding(mesh, P("x", "y")), NamedSharding(mesh, P()))
        )
        return a + b, c, jax.device_put(x)

    return Program(f, (floats(8, 4), floats(3)))


@program
def device_put_aliasing() -> Program:
    mesh = auto_mesh()
    sharding = NamedSharding(mesh, P("x"))

    def f(x: Any) -> Any:
        a = jax.device_put(x, sharding, may_alias=False)
        b = jax.device_put(x, sharding, may_alias=True)
        return a + b + jax.device_put(x, sharding, donate=True)

    return Program(f, (floats(8, 4),))


@program
def device_put_memory_kind() -> Program:
    mesh = auto_mesh()
    host = NamedSharding(mesh, P("x"), memory_kind="pinned_host")
    device = NamedSharding(mesh, P("x"), memory_kind="device")

    def f(x: Any) -> Any:
        return jax.device_put(jax.device_put(x, host), device) * 2

    return Program(jax.jit(f), (floats(8, 4),))


@program
def memory_spaces() -> Program:
    def f(x: Any) -> Any:
        y = jax.device_put(x, jax.memory.Space.Host)
        return jax.device_put(y, jax.memory.Space.Device) + 1

    return Program(jax.jit(f), (floats(4),))


@program
def host_compute() -> Program:
    from jax.experimental.compute_on import compute_on

    if "out_memory_spaces" in inspect.signature(compute_on).parameters:
        return host_compute_function()  # no context manager since jax 0.11

    def f(x: Any) -> Any:
        with compute_on("device_host"):
            y = jnp.sin(x) * 2
        return jnp.cos(y)

    return Program(jax.jit(f), (floats(4),))


@program
def host_compute_function() -> Program:
    from jax.experimental import compute_on

    decorator = getattr(compute_on, "compute_on2", compute_on.compute_on)

    @decorator(compute_type="device_host", out_memory_spaces=jax.memory.Space.Device)
    def on_host(x: Any) -> Any:
        return jnp.sin(x) * 2

    return Program(jax.jit(lambda x: on_host(x) + 1), (floats(4),))


@program
def offloaded_residuals() -> Program:
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=["y"],
        offload_src="device",
        offload_dst="pinned_host",
    )

    def f(x: Any) -> Any:
        def g(v: Any) -> Any:
            return jnp.sin(checkpoint_name(jnp.sin(v), "y"))

        return jax.checkpoint(g, policy=policy)(x).sum()

    return Program(jax.jit(jax.grad(f)), (floats(4),))


@program
def metadata() -> Program:
    from jax.experimental.xla_metadata import set_xla_metadata

    def f(x: Any) -> Any:
        with set_xla_metadata(stage="first", level=2):
            y = jnp.sin(x) + 1
            with set_xla_metadata(inner=True):
                y = y * 3
        return set_xla_metadata(y * 2, tagged="yes")

    return Program(f, (floats(4),))


@program
def threefry_not_partitionable() -> Program:
    return Program(
        lambda key: jax.random.uniform(key, (4,)),
        (jax.random.key(0),),
        jax.threefry_partitionable(False),
    )


@program
def threefry_mixed() -> Program:
    def f(key: Any) -> Any:
        with jax.threefry_partitionable(False):
            a = jax.random.bits(key, (4,))
        return a + jax.random.bits(key, (4,))

    return Program(f, (jax.random.key(0),))


@program
def layout_constraint() -> Program:
    from jax.experimental.layout import Layout, with_layout_constraint

    return Program(
        jax.jit(lambda x: with_layout_constraint(x, Layout(major_to_minor=(1, 0))) * 2),
        (floats(4, 2),),
    )


@program
def format_constraint() -> Program:
    from jax.experimental.layout import Format, Layout

    mesh = auto_mesh()
    wanted = Format(Layout(major_to_minor=(1, 0)), NamedSharding(mesh, P("x")))
    return Program(jax.jit(lambda x: jax.device_put(x, wanted) * 2), (floats(8, 2),))


@program
def shard_alike() -> Program:
    try:
        from jax.experimental.shard_alike import shard_alike as alike
    except ImportError:
        pytest.skip("jax 0.11 removed shard_alike")

    def f(x: Any) -> Any:
        a, b = alike(x, x * 2)
        return a + b

    return Program(jax.jit(f), (floats(4),))


@program
def default_matmul_precision() -> Program:
    return Program(
        lambda x: x @ x, (floats(4, 4),), jax.default_matmul_precision("float32")
    )


@program
def strict_promotion() -> Program:
    return Program(
        lambda x: x * 2 + 1, (floats(4),), jax.numpy_dtype_promotion("strict")
    )


@program
def mesh_with_devices() -> Program:
    mesh = jax.sharding.Mesh(np.array(jax.devices())[::-1].reshape(2, 4), ("a", "b"))

    def f(x: Any) -> Any:
        return jax.lax.with_sharding_constraint(
            jnp.sin(x), NamedSharding(mesh, P("b", "a"))
        )

    return Program(jax.jit(f), (floats(8, 4),))


@program
def legacy_mesh_context() -> Program:
    mesh = auto_mesh()

    def f(x: Any) -> Any:
        return jax.lax.with_sharding_constraint(jnp.sin(x), P("x"))

    return Program(jax.jit(f), (floats(8, 4),), mesh)
