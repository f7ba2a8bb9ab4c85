"""Which part of a variable a call reads, of several parts that hold one array.

Of `zeros = jnp.zeros(3)` and `state = {"m": zeros, "v": zeros}` either part is the array, and
only the source of a function tells which of the two it reads.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterable, Iterator, Set
from dataclasses import is_dataclass
from typing import Any

from untrace import jaxapi
from untrace.objects import attributes_of
from untrace.recovery.expressions import expression_at, given_at, static_value
from untrace.recovery.record import SharedPart
from untrace.recovery.sites import once_per_site
from untrace.recovery.snapshots import Snapshots

MAX_ARRAYS = 64
"""Parts of variables with more are not looked at."""


def shared_arrays(values: Iterable[Any]) -> frozenset[int]:
    """Return the `id` of the arrays that occur twice, in containers as well."""
    keys = [id(array) for array in _arrays(values)]
    if len(set(keys)) == len(keys):
        return _NONE
    return frozenset([key for key in keys if keys.count(key) > 1])


_NONE: frozenset[int] = frozenset()


def _arrays(values: Iterable[Any]) -> list[Any]:
    """List the tracers in values, in containers and dataclasses; none if they are many."""
    left = [*values]
    found: list[Any] = []
    for value in left:  # which grows
        if isinstance(value, jaxapi.Tracer):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            left.extend(value)
        elif type(value) is dict:
            left += value.values()
        elif is_dataclass(value) and not isinstance(value, type):
            left += attributes_of(value).values()
        if len(left) > MAX_ARRAYS:
            return []
    return found


def shared_parts(
    frame: types.FrameType, shared: Set[int], snapshots: Snapshots
) -> tuple[SharedPart, ...]:
    """Return the parts that a call is given, in the order of the source.

    Args:
      frame: The caller's, which is at the call.
      shared: The `id` of the arrays that several parts are.
      snapshots: Copies what may change.
    """
    found: list[SharedPart] = []
    for variable, path, node in _parts_read(frame.f_code, frame.f_lasti):
        value = static_value(node, frame)
        if not shared.isdisjoint(map(id, _arrays([value]))):
            found.append(SharedPart(variable, path, snapshots.take(value)))
    return tuple(found)


_Read = tuple[str, tuple[Any, ...], ast.expr]


@once_per_site
def _parts_read(code: types.CodeType, lasti: int) -> tuple[_Read, ...]:
    """Return the parts of variables among what a call or an operation is given."""
    node = expression_at(code, lasti)
    given = given_at(code, lasti)
    match node:
        case ast.Call(func=ast.Attribute(value=owner)) | ast.Subscript(value=owner):
            given = [owner, *given]
        case ast.Attribute(value=owner) | ast.UnaryOp(operand=owner):
            given = [owner]
        case _:
            pass
    return tuple(_read(given))


def _read(nodes: Iterable[ast.expr]) -> Iterator[_Read]:
    for node in nodes:
        if isinstance(node, ast.Tuple | ast.List):
            yield from _read(node.elts)
        elif (place := _place(node)) is not None:
            yield *place, node


def _place(node: ast.expr) -> tuple[str, tuple[Any, ...]] | None:
    """Return the variable that a part is of, and the path to it."""
    match node:
        case ast.Name(id=name):
            return name, ()
        case ast.Attribute(value=owner, attr=key):
            pass
        case ast.Subscript(value=owner, slice=ast.Constant(value=key)):
            pass
        case _:
            return None
    around = _place(owner)
    return None if around is None else (around[0], (*around[1], key))
