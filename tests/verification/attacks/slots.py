"""One pair for every slot of types, contexts and equations.

`SLOTS` says which there are; a slot of a class of JAX that is not in it fails the suite.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import core
from jax._src.state.types import AbstractRef
from jax.sharding import AbstractMesh, AxisType, NamedSharding

from tests.verification.attacks.pairs import Jaxpr, X, differs
from untrace import jaxapi

BASE = jax.make_jaxpr(lambda x: jnp.sin(x) * 2.0)(X)
TYPE = core.ShapedArray((4,), np.dtype(np.float32))
MESH = AbstractMesh((2,), ("a",), (AxisType.Explicit,))
WITHOUT_MEANING = frozenset(
    {"__weakref__", "_stripped_weak_type", "configs", "_debug_info", "source_info"}
)
"""Caches, and what says where something came from."""


def typed(aval: Any) -> Jaxpr:
    """A program of an input of another type."""

    def make() -> Any:
        body, _ = jaxapi.split_jaxpr(BASE)
        var = core.Var(aval)
        first, *rest = body.eqns
        return jaxapi.close_jaxpr(
            body.replace(invars=[var], eqns=[first.replace(invars=[var]), *rest])
        )

    return Jaxpr(make)


def resulting(aval: Any) -> Jaxpr:
    """A program whose equation has a result of another type."""

    def make() -> Any:
        body, _ = jaxapi.split_jaxpr(BASE)
        var = core.Var(aval)
        first, last = body.eqns
        eqns = [
            first.replace(outvars=[var]),
            last.replace(invars=[var, last.invars[1]]),
        ]
        return jaxapi.close_jaxpr(body.replace(eqns=eqns))

    return Jaxpr(make)


def within(name: str, value: Any) -> Jaxpr:
    """A program whose first equation has another context."""

    def make() -> Any:
        body, _ = jaxapi.split_jaxpr(BASE)
        first, *rest = body.eqns
        context = object.__new__(core.JaxprEqnContext)
        for slot in core.JaxprEqnContext.__slots__:
            if hasattr(first.ctx, slot) and slot != "__weakref__":
                object.__setattr__(context, slot, getattr(first.ctx, slot))
        object.__setattr__(context, name, value)
        return jaxapi.close_jaxpr(
            body.replace(eqns=[first.replace(ctx=context), *rest])
        )

    return Jaxpr(make)


def slot(name: str, value: Any) -> Jaxpr:
    """A program with another value in one slot of its last equation."""

    def make() -> Any:
        body, _ = jaxapi.split_jaxpr(BASE)
        *rest, last = body.eqns
        return jaxapi.close_jaxpr(
            body.replace(eqns=[*rest, last.replace(**{name: value(last)})])
        )

    return Jaxpr(make)


def varying(*axes: str) -> Any:
    """A type inside a `shard_map`, which varies over some axes of the mesh."""
    mesh = AbstractMesh((2, 2), ("a", "b"), (AxisType.Manual,) * 2)
    kind = core.ManualAxisType(varying=frozenset(axes))
    return TYPE.update(sharding=NamedSharding(mesh, jax.P(None)), manual_axis_type=kind)


ARRAYS: dict[str, tuple[Any, Any]] = {
    "shape": (TYPE, TYPE.update(shape=(5,), sharding=None)),
    "dtype": (TYPE, TYPE.update(dtype=np.dtype(np.float16))),
    "weak_type": (TYPE, TYPE.update(weak_type=True)),
    "sharding": (TYPE, TYPE.update(sharding=NamedSharding(MESH, jax.P("a")))),
    "manual_axis_type": (varying("a"), varying("b")),
    "memory_space": (TYPE, TYPE.update(memory_space=jax.memory.Space.Host)),
}
if "layout" in core.ShapedArray.__slots__:
    from jax.experimental.layout import Layout

    ARRAYS["layout"] = (TYPE, TYPE.update(layout=Layout(major_to_minor=(0,))))
REFS: dict[str, tuple[Any, Any]] = {
    "inner_aval": (
        AbstractRef(TYPE),
        AbstractRef(TYPE.update(shape=(5,), sharding=None)),
    ),
    "memory_space": (AbstractRef(TYPE), AbstractRef(TYPE, "hbm")),
    "kind": (AbstractRef(TYPE), AbstractRef(TYPE, kind="pinned")),
}
CONTEXTS: dict[str, Any] = {
    "compute_type": "device_host",
    "threefry_partitionable": False,
    "cur_abstract_mesh": MESH,
    "remove_size_one_mesh_axis": True,
    "xla_metadata": {"a": 1},
}
if "cur_layout_mode" in core.JaxprEqnContext.__slots__:
    from jax._src.layout import LayoutMode

    CONTEXTS["cur_layout_mode"] = next(m for m in LayoutMode if m.name != "AUTO")
    CONTEXTS["no_collectives"] = frozenset({"a"})
EQUATIONS: dict[str, Any] = {
    "invars": lambda last: last.invars[::-1],
    "primitive": lambda last: jax.lax.div_p,
    "params": lambda last: {**last.params, "another": 1},
    "effects": lambda last: {core.NamedAxisEffect("a")},
}

for _name, (_one, _other) in ARRAYS.items():
    differs(
        f"type of an input, {_name}",
        typed(_one),
        typed(_other),
        because="the types differ",
    )
    differs(
        f"type of a result, {_name}",
        resulting(_one),
        resulting(_other),
        because="the types differ",
    )
for _name, (_one, _other) in REFS.items():
    differs(
        f"type of a ref, {_name}",
        typed(_one),
        typed(_other),
        because="the types differ",
    )
for _name, _value in CONTEXTS.items():
    differs(
        f"context, {_name}",
        Jaxpr(lambda: BASE),
        within(_name, _value),
        because="the contexts differ",
    )
for _name, _value in EQUATIONS.items():
    differs(
        f"equation, {_name}",
        Jaxpr(lambda: BASE),
        slot(_name, _value),
        because="the equations differ",
    )

SLOTS: dict[type, frozenset[str]] = {
    core.ShapedArray: frozenset(ARRAYS),
    AbstractRef: frozenset(REFS),
    core.JaxprEqnContext: frozenset(CONTEXTS),
    core.JaxprEqn: frozenset(
        {*EQUATIONS, "outvars", "ctx"}
    ),  # types and contexts above
}
"""By class, its slots that have pairs."""
