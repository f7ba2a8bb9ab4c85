"""Meshes, shardings, layouts, collectives, devices, donation, and where things are computed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.layout import Format, Layout, with_layout_constraint
from jax.experimental.xla_metadata import set_xla_metadata
from jax.sharding import AxisType, NamedSharding, PartitionSpec, SingleDeviceSharding

from tests.verification.attacks.pairs import I, M, X, Y, differs, regrouped
from untrace import jaxapi

P = PartitionSpec
DEVICES = jax.devices()


def mesh(
    sizes: Any = (2,), names: Any = ("a",), kind: Any = AxisType.Auto, first: int = 0
) -> Any:
    """A mesh over some of the devices."""
    n = int(np.prod(sizes))
    return jax.make_mesh(
        sizes, names, (kind,) * len(sizes), devices=DEVICES[first : first + n]
    )


PAIR, OTHER, SQUARE = mesh(), mesh(first=2), mesh((2, 2), ("a", "b"))


def mapped(
    body: Any, on: Any = PAIR, into: Any = P("a"), out: Any = P("a"), **options: Any
) -> Any:
    """A program that maps a function over the devices of a mesh."""
    return lambda *args: jax.shard_map(
        body, mesh=on, in_specs=(into,) * len(args), out_specs=out, **options
    )(*args)


def constrained(spec: Any = P("a"), on: Any = PAIR, **options: Any) -> Any:
    return lambda x: lax.with_sharding_constraint(
        x * 2, NamedSharding(on, spec, **options)
    )


def jitted(**options: Any) -> Any:
    return lambda x: jax.jit(lambda x: x * 2.0, **options)(x)


def collective(f: Any, *args: Any, **options: Any) -> Any:
    on = options.pop("on", PAIR)
    return mapped(lambda x: f(x, *args, **options), on, P(), P(), check_vma=False)


def put(*args: Any, **options: Any) -> Any:
    return lambda x: jax.device_put(x * 2, *args, **options)


# ---- shard_map -------------------------------------------------------------------------

differs("shard_map, body", mapped(jnp.sin), mapped(jnp.cos))
differs(
    "shard_map, name of the axis",
    mapped(jnp.sin),
    mapped(jnp.sin, mesh((2,), ("b",)), P("b"), P("b")),
)
differs("shard_map, size of the axis", mapped(jnp.sin), mapped(jnp.sin, mesh((4,))))
differs(
    "shard_map, in_specs",
    mapped(jnp.sin, out=P(), check_vma=False),
    mapped(jnp.sin, into=P(), out=P(), check_vma=False),
)
differs(
    "shard_map, out_specs",
    mapped(lambda x: x.sum(), into=P(), out=P()),
    mapped(lambda x: x.sum()[None], into=P(), out=P("a")),
)
differs(
    "shard_map, which axis of the mesh",
    mapped(jnp.sin, SQUARE, P("a"), P("a")),
    mapped(jnp.sin, SQUARE, P("b"), P("b")),
)
differs(
    "shard_map, order of axes in a spec",
    mapped(jnp.sin, SQUARE, P(("a", "b")), P(("a", "b"))),
    mapped(jnp.sin, SQUARE, P(("b", "a")), P(("b", "a"))),
)


def unchecked(scale: float) -> Any:
    """A function whose backward rule raises where varying values are told apart."""

    def marked(x: Any) -> Any:
        varying = lax.pcast(x, "a", to="varying")
        assert "{V:a}" not in str(jax.typeof(varying))
        return varying

    @jax.custom_vjp
    def double(x: Any) -> Any:
        return x * 2

    double.defvjp(lambda x: (x * 2, None), lambda _, ct: (marked(ct * scale),))
    return mapped(double, check_vma=False)


differs("shard_map, a rule without check_vma", unchecked(2.0), unchecked(3.0))
differs("shard_map, check_vma", mapped(jnp.sin), mapped(jnp.sin, check_vma=False))
differs(
    "shard_map, manual axes",
    mapped(jnp.sin, SQUARE, axis_names={"a"}),
    mapped(jnp.sin, SQUARE),
)
differs(
    "shard_map, devices of the mesh",
    mapped(jnp.sin),
    mapped(jnp.sin, OTHER),
    because="it runs on other devices",
)
differs(
    "shard_map, order of the devices",
    mapped(jnp.sin),
    mapped(jnp.sin, jax.sharding.Mesh(DEVICES[1::-1], ("a",))),
    because="it runs on other devices",
)

# ---- collectives -----------------------------------------------------------------------

differs("psum or pmax", collective(lax.psum, "a"), collective(lax.pmax, "a"))
differs("pmax or pmin", collective(lax.pmax, "a"), collective(lax.pmin, "a"))
differs("psum or pmean", collective(lax.psum, "a"), collective(lax.pmean, "a"))
differs(
    "psum, axis",
    collective(lax.psum, "a", on=SQUARE),
    collective(lax.psum, "b", on=SQUARE),
)
differs(
    "psum, axes",
    collective(lax.psum, ("a", "b"), on=SQUARE),
    collective(lax.psum, "a", on=SQUARE),
)
differs(
    "psum, groups",
    collective(lax.psum, "a", on=mesh((4,)), axis_index_groups=[[0, 1], [2, 3]]),
    collective(lax.psum, "a", on=mesh((4,)), axis_index_groups=[[0, 2], [1, 3]]),
)
differs(
    "psum, groups or none",
    collective(lax.psum, "a"),
    collective(lax.psum, "a", axis_index_groups=[[0], [1]]),
)
differs(
    "all_gather, axis",
    collective(lax.all_gather, "a", axis=0),
    collective(lax.all_gather, "a", axis=1),
)
differs(
    "all_gather, tiled",
    collective(lax.all_gather, "a", tiled=True),
    collective(lax.all_gather, "a"),
)
differs(
    "all_gather, groups",
    collective(lax.all_gather, "a"),
    collective(lax.all_gather, "a", axis_index_groups=[[1, 0]]),
)
differs(
    "all_to_all, axes",
    mapped(lambda x: lax.all_to_all(x, "a", 0, 1, tiled=True), check_vma=False),
    mapped(lambda x: lax.all_to_all(x, "a", 1, 0, tiled=True), check_vma=False),
    np.ones((4, 4), np.float32),
)
differs(
    "psum_scatter, tiled",
    collective(lax.psum_scatter, "a", tiled=True),
    collective(lambda x, a: lax.psum_scatter(x[:2], a), "a"),
)
differs(
    "psum_scatter, dimension",
    *[
        mapped(
            lambda x, d=d: lax.psum_scatter(x, "a", scatter_dimension=d, tiled=True),
            check_vma=False,
        )
        for d in (0, 1)
    ],
    np.ones((4, 4), np.float32),
)
differs(
    "ppermute, permutation",
    collective(lax.ppermute, "a", perm=[(0, 1), (1, 0)]),
    collective(lax.ppermute, "a", perm=[(0, 0), (1, 1)]),
)
differs(
    "ppermute, order of the permutation",
    collective(lax.ppermute, "a", perm=[(0, 1), (1, 0)]),
    collective(lax.ppermute, "a", perm=[(1, 0), (0, 1)]),
)
differs(
    "axis_index, axis",
    mapped(lambda x: x * lax.axis_index("a"), SQUARE, P("a", "b"), P("a", "b")),
    mapped(lambda x: x * lax.axis_index("b"), SQUARE, P("a", "b"), P("a", "b")),
    np.ones((4, 4), np.float32),
)
differs(
    "pbroadcast, source", *[collective(lax.pbroadcast, "a", s) for s in (0, 1)]
) if hasattr(lax, "pbroadcast") else None
differs(
    "ragged_all_to_all, operands",
    *[
        mapped(
            lambda x, y, i, f=f: lax.ragged_all_to_all(
                *f(x, y), i, i, i, i, axis_name="a"
            ),
            into=P(),
            out=P(),
            check_vma=False,
        )
        for f in (lambda x, y: (x, y), lambda x, y: (y, x))
    ],
    X,
    Y,
    I[:2],
)

# ---- shardings and layouts ---------------------------------------------------------------

differs("sharding constraint, spec", constrained(), constrained(P(None)))
differs(
    "sharding constraint, axis",
    constrained(P("a"), SQUARE),
    constrained(P("b"), SQUARE),
)
differs(
    "sharding constraint, unconstrained",
    constrained(P(None)),
    constrained(P(P.UNCONSTRAINED)),
)
differs(
    "sharding constraint, mesh",
    constrained(),
    constrained(on=OTHER),
    because="it runs on other devices",
)
differs(
    "sharding constraint, memory kind",
    constrained(memory_kind="device"),
    constrained(memory_kind="pinned_host"),
)
differs("sharding constraint or none", constrained(), lambda x: x * 2)
differs(
    "layout constraint",
    *[
        lambda x, o=o: with_layout_constraint(x * 2, Layout(major_to_minor=o))
        for o in ((0, 1), (1, 0))
    ],
    M,
)
differs(
    "explicit sharding, reshard",
    *[
        lambda x, s=s: jax.sharding.reshard(
            x, NamedSharding(mesh(kind=AxisType.Explicit), s)
        )
        for s in (P("a"), P(None))
    ],
)
differs(
    "mesh in use",
    *[lambda x, m=m: _within(m, lambda: jnp.sin(x)) for m in (PAIR, SQUARE)],
    because="the contexts of the equations differ",
)


def _within(on: Any, f: Any) -> Any:
    with jax.sharding.use_abstract_mesh(on.abstract_mesh):
        return f()


# ---- jit ---------------------------------------------------------------------------------

differs("jit, donation", jitted(donate_argnums=0), jitted())
differs(
    "jit, out_shardings",
    jitted(out_shardings=SingleDeviceSharding(DEVICES[0])),
    jitted(),
)
differs(
    "jit, device of out_shardings",
    *[jitted(out_shardings=SingleDeviceSharding(d)) for d in DEVICES[:2]],
)
differs(
    "jit, in_shardings",
    jitted(in_shardings=NamedSharding(PAIR, P("a"))),
    jitted(in_shardings=NamedSharding(PAIR, P())),
)
differs(
    "jit, layout of a result",
    *[
        jitted(
            out_shardings=Format(
                Layout(major_to_minor=(0,)), SingleDeviceSharding(DEVICES[0])
            )
        ),
        jitted(out_shardings=SingleDeviceSharding(DEVICES[0])),
    ],
)
regrouped("jit, keep_unused", jitted(keep_unused=True), jitted())
regrouped("jit, inline", jitted(inline=True), jitted())
regrouped(
    "jit, name",
    lambda x: jax.jit(_first)(x),
    lambda x: jax.jit(_second)(x),
    because="a label",
)


def _first(x: Any) -> Any:
    return jnp.sin(x) * 2


def _second(x: Any) -> Any:
    return jnp.sin(x) * 2


# ---- device_put --------------------------------------------------------------------------

differs("device_put, device", put(DEVICES[0]), put(DEVICES[1]))
differs(
    "device_put, device or sharding", put(DEVICES[0]), put(NamedSharding(PAIR, P("a")))
)
differs(
    "device_put, spec", put(NamedSharding(PAIR, P("a"))), put(NamedSharding(PAIR, P()))
)
differs("device_put, device or none", put(DEVICES[0]), put())
differs(
    "device_put, source",
    put(DEVICES[0], src=DEVICES[0]),
    put(DEVICES[0], src=DEVICES[1]),
    because="the sources differ",
)
differs(
    "device_put, may_alias",
    put(DEVICES[0], may_alias=True),
    put(DEVICES[0], may_alias=False),
)
differs("device_put, donate", put(DEVICES[0], donate=True), put(DEVICES[0]))
differs(
    "device_put, memory space", put(jax.memory.Space.Host), put(jax.memory.Space.Device)
)
differs(
    "device_put, order of two",
    lambda x, y: jax.device_put((x, y), (DEVICES[0], DEVICES[1])),
    lambda x, y: jax.device_put((x, y), (DEVICES[1], DEVICES[0])),
    X,
    Y,
)

# ---- contexts ------------------------------------------------------------------------------


def tagged(**tags: Any) -> Any:
    def f(x: Any) -> Any:
        with set_xla_metadata(**tags):
            return jnp.sin(x)

    return f


def tagged_twice(x: Any) -> Any:
    with set_xla_metadata(a=1), set_xla_metadata(b=2):
        return jnp.sin(x)


def computed_on(kind: str) -> Any:
    import jax.experimental.compute_on as module

    decorate = getattr(module, jaxapi.COMPUTE_ON)
    return lambda x: decorate(
        compute_type=kind, out_memory_spaces=jax.memory.Space.Device
    )(jax.jit(jnp.sin))(x)


differs("xla metadata, value", tagged(a=1), tagged(a=2))
differs("xla metadata, key", tagged(a=1), tagged(b=1))
differs("xla metadata, one or two", tagged(a=1), tagged_twice)
differs("xla metadata or none", tagged(a=1), jnp.sin)
differs(
    "xla metadata on a call", lambda x: _tagged_call(x, 1), lambda x: _tagged_call(x, 2)
)
differs("compute_on", computed_on("device_host"), computed_on("tpu_sparsecore"))
differs("compute_on or none", computed_on("device_host"), lambda x: jax.jit(jnp.sin)(x))


def _tagged_call(x: Any, n: int) -> Any:
    with set_xla_metadata(a=n):
        return jax.jit(jnp.sin)(x)
