"""Parts of shapes that the caller's source passes on: `(*x.shape[:-1], n)`.

Such a shape may also be a sum, `x.shape[:-1] + (n,)`, or the arguments of `reshape`. It, or
a part, may be a variable, `lead = x.shape[:-1]`, where that has one value only.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from untrace.recovery.expressions import expression_at
from untrace.recovery.held_before import array_at
from untrace.recovery.record import WHOLE, Body, ShapePart
from untrace.recovery.sites import once_per_site
from untrace.recovery.variables import (
    Variables,
    bounds,
    is_tuple,
    shaped,
    tuple_held,
    variable_of,
    variables_around,
)


class _Before(ast.Starred):
    """A part that a variable was assigned before the call."""


def shape_parts(frame: types.FrameType, body: Body) -> tuple[ShapePart, ...]:
    """Return the parts of shapes that a call is given.

    Args:
      frame: The caller's, which is at the call.
    """
    found: list[ShapePart] = []
    for items in _shapes(frame.f_code, frame.f_lasti):
        found += _parts(items, frame, body)
    return tuple(found)


@once_per_site
def _shapes(code: types.CodeType, lasti: int) -> tuple[tuple[ast.expr, ...], ...]:
    """Return the items of the shapes that a call is given a part of another one in."""
    node = expression_at(code, lasti)
    if not isinstance(node, ast.Call):
        return ()
    given = [*node.args, *(k.value for k in node.keywords)]
    known = variables_around(code.co_filename).get(node)
    shapes = [node.args, *([*_items(one, known)] for one in given)]
    shapes = [[one for item in items for one in _held(item, known)] for items in shapes]
    return tuple([tuple(items) for items in shapes if any(map(_is_part, items))])


def _items(node: ast.expr, known: Variables | None) -> Iterator[ast.expr]:
    """Yield the items of a tuple, or of a sum of tuples; parts of shapes have a star."""
    node = tuple_held(node, known)
    if isinstance(node, (ast.Tuple, ast.List)):
        yield from node.elts
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _items(node.left, known)
        yield from _items(node.right, known)
    elif _is_shape(_assigned(node, known)):
        yield ast.Starred(node)


def _held(item: ast.expr, known: Variables | None) -> Iterator[ast.expr]:
    """Yield an item, with what variables in the places of parts were assigned."""
    if not isinstance(item, ast.Starred):
        yield item
    elif is_tuple(held := tuple_held(item.value, known)):
        for inner in _items(held, known):
            yield from _held(inner, known)
    else:
        part = _assigned(item.value, known)
        yield item if part is item.value else _Before(part)


def _assigned(node: ast.expr, known: Variables | None) -> ast.expr:
    """Return the part of a shape that a variable was assigned, if that is plain."""
    if not isinstance(node, ast.Name) or known is None:
        return node
    found = known.assigned.get(node.id)
    is_plain = found is not None and not found.names and _is_shape(found.value)
    return found.value if found is not None and is_plain else node


def _array(shape: ast.expr) -> ast.expr:
    """Return the array that a part of a shape is of."""
    whole = shape.value if isinstance(shape, ast.Subscript) else shape
    array = shaped(whole)
    assert array is not None
    return array


def _is_part(node: ast.expr) -> bool:
    return isinstance(node, ast.Starred) and _is_shape(node.value)


def _is_shape(node: ast.expr) -> bool:
    """Whether an expression is `x.shape` or a slice of it."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Slice) and _is_shape(node.value)
    array = shaped(node)
    return array is not None and bool(variable_of(array))


def _parts(
    items: Sequence[ast.expr], frame: types.FrameType, body: Body
) -> Iterator[ShapePart]:
    position = 0
    for item in items:
        if not isinstance(item, ast.Starred):
            position += 1
            continue
        known = variables_around(frame.f_code.co_filename).get(item.value)
        before = known if isinstance(item, _Before) else None
        part = _part(item.value, position, _Caller(frame, body, before))
        if part is None:  # where the next ones stand is unknown
            return
        yield part
        position += len(part.sizes)


class _Caller(NamedTuple):
    frame: types.FrameType
    body: Body
    before: Variables | None


def _part(node: ast.expr, position: int, caller: _Caller) -> ShapePart | None:
    if not _is_shape(node):
        return None
    ends = WHOLE
    if isinstance(node, ast.Subscript):
        assert isinstance(node.slice, ast.Slice)
        try:
            ends = bounds(node.slice)
        except ValueError:
            return None
        node = node.value
    array = array_at(_array(node), *caller)
    return ShapePart(array, *ends, position) if array is not None else None
