"""Change a value that stands in a jaxpr into another plausible one.

`changed(value)` lists other values of the same kind, each of which means something
else; nothing that is made here is ever run.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax._src import core

from tests.verification.mutation import value_edits
from untrace import jaxapi
from untrace.verification.canonical import class_name

Change = tuple[str, Callable[[], Any]]


def changed(value: Any) -> Iterator[Change]:
    """List other values: how they differ, and a function that makes them."""
    if jaxapi.is_jaxpr(value):
        yield "negated result", lambda: negated(value)
    elif value is None:
        yield "not None", lambda: 7
    elif isinstance(value, (*jaxapi.FLAT_TREES, *jaxapi.FLAT_PYTREES)):
        return  # they count; what is plausible is seen elsewhere
    elif isinstance(value, jax.tree_util.PyTreeDef):
        yield "another key", lambda: jax.tree.structure({"another": 0})
    elif isinstance(value, core.Primitive):
        yield "another primitive", lambda: jax.lax.erf_p
    elif isinstance(value, core.AbstractValue):
        yield from _types(value)
    elif isinstance(value, jax.sharding.Sharding):
        yield (
            "another device",
            lambda: jax.sharding.SingleDeviceSharding(jax.devices()[5]),
        )
    elif isinstance(value, jax.sharding.PartitionSpec):
        yield "another axis", lambda: jax.P("another", *value)
    elif isinstance(value, jax.sharding.Mesh | jax.sharding.AbstractMesh):
        yield "another mesh", lambda: jax.sharding.AbstractMesh((3,), ("another",))
    elif isinstance(value, np.ndarray | jax.Array):
        yield "added to", lambda: np.asarray(value) + np.asarray(1, value.dtype)
    else:
        yield from _others(value)


def _types(aval: Any) -> Iterator[Change]:
    if isinstance(aval, core.ShapedArray):
        yield "longer", lambda: aval.update(shape=(*aval.shape, 3), sharding=None)
        yield "another dtype", lambda: aval.update(dtype=np.dtype(np.int8))
    else:
        yield "an array", lambda: core.ShapedArray((3,), np.float32)


def _others(value: Any) -> Iterator[Change]:
    found = False
    for what, make in value_edits(value):
        found = True
        yield what, make
    if found or isinstance(value, bool | int):
        return
    if isinstance(value, tuple | list):
        yield from _in_sequence(value)
    elif isinstance(value, dict | types.MappingProxyType | jaxapi.FrozenDict):
        yield "another key", lambda: type(value)({**dict(value.items()), "another": 1})
    elif isinstance(value, set | frozenset):
        yield "another element", lambda: type(value)({*value, "another"})
    elif isinstance(value, bytes):
        yield "another byte", lambda: value + b"x"
    elif isinstance(value, functools.partial):
        yield "another argument", lambda: functools.partial(value, 7)
    elif callable(value):
        yield "another function", lambda: lambda *args: args
    else:
        yield from _in_object(value)


def _in_sequence(value: Any) -> Iterator[Change]:
    yield "longer", lambda: type(value)([*value, 7])
    for i, item in enumerate(value[:2]):
        for what, make in changed(item):
            yield (
                f"[{i}] {what}",
                lambda i=i, make=make: type(value)(
                    [*value[:i], make(), *value[i + 1 :]]
                ),
            )


def _in_object(value: Any) -> Iterator[Change]:
    """Change one field of an object, or put something else in its place."""
    if dataclasses.is_dataclass(value):
        origins = jaxapi.ORIGIN_FIELDS.get(class_name(type(value)), ())
        for field in dataclasses.fields(value):
            if field.init and field.name not in origins:
                for what, make in changed(getattr(value, field.name)):
                    yield (
                        f".{field.name} {what}",
                        lambda n=field.name, make=make: dataclasses.replace(
                            value, **{n: make()}
                        ),
                    )
    yield "something else", lambda: "something else"


def negated(jaxpr: Any) -> Any:
    """A jaxpr whose first result, or first type, is another one."""
    body, consts = jaxapi.split_jaxpr(jaxpr)
    is_closed = isinstance(jaxpr, jaxapi.ClosedJaxpr)
    if body.outvars:
        first, *rest = body.outvars
        made = core.Var(first.aval)
        template = jax.make_jaxpr(lambda x: -x)(1.0).eqns[0]
        eqn = template.replace(invars=[first], outvars=[made])
        new = body.replace(eqns=[*body.eqns, eqn], outvars=[made, *rest])
    else:
        new = body.replace(
            eqns=[*body.eqns, *body.eqns[-1:]],
            invars=[
                *body.invars,
                *([] if body.eqns else [core.Var(core.ShapedArray((), np.float32))]),
            ],
        )
    return jaxapi.close_jaxpr(new, consts) if is_closed else new
