"""Parts of shapes that the caller's source passes on: `(*x.shape[:-1], n)`.

Such a shape may also be a sum, `x.shape[:-1] + (n,)`, or the arguments of `reshape`; and a
part a variable, `lead = x.shape[:-1]`, where it and the array have one value only.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator, Sequence
from typing import Any

from untrace.recovery.expressions import expression_at, is_local, static_value
from untrace.recovery.numbers import is_any_array
from untrace.recovery.record import ShapePart
from untrace.recovery.sites import once_per_site
from untrace.recovery.variables import Variables, variable_of, variables_around


def shape_parts(frame: types.FrameType) -> tuple[ShapePart, ...]:
    """Return the parts of shapes that a call is given.

    Args:
      frame: The caller's, which is at the call.
    """
    found: list[ShapePart] = []
    for items in _shapes(frame.f_code, frame.f_lasti):
        found += _parts(items, frame)
    return tuple(found)


@once_per_site
def _shapes(code: types.CodeType, lasti: int) -> tuple[tuple[ast.expr, ...], ...]:
    """Return the items of the shapes that a call is given a part of another one in."""
    node = expression_at(code, lasti)
    if not isinstance(node, ast.Call):
        return ()
    given = [*node.args, *(k.value for k in node.keywords)]
    known = variables_around(code.co_filename).get(node)
    shapes = [tuple(node.args), *(tuple(_items(one, known)) for one in given)]
    shapes = [tuple([_held(item, known) for item in items]) for items in shapes]
    return tuple([items for items in shapes if any(map(_is_part, items))])


def _items(node: ast.expr, known: Variables | None) -> Iterator[ast.expr]:
    """Yield the items of a tuple, or of a sum of tuples; parts of shapes have a star."""
    if isinstance(node, (ast.Tuple, ast.List)):
        yield from node.elts
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _items(node.left, known)
        yield from _items(node.right, known)
    elif _is_shape(_assigned(node, known)):
        yield ast.Starred(node)


def _held(item: ast.expr, known: Variables | None) -> ast.expr:
    """Return an item with what a variable in the place of a part was assigned."""
    if not isinstance(item, ast.Starred):
        return item
    return ast.Starred(_assigned(item.value, known))


def _assigned(node: ast.expr, known: Variables | None) -> ast.expr:
    """Return the part of a shape that a variable was assigned, if that is plain."""
    if not isinstance(node, ast.Name) or known is None:
        return node
    found = known.assigned.get(node.id)
    if found is None or found.names or not _is_shape(found.value):
        return node
    shape = found.value
    shape = shape.value if isinstance(shape, ast.Subscript) else shape
    assert isinstance(shape, ast.Attribute)
    is_one = len(known.stores.get(variable_of(shape.value), [])) == 1
    return found.value if is_one else node


def _is_part(node: ast.expr) -> bool:
    return isinstance(node, ast.Starred) and _is_shape(node.value)


def _is_shape(node: ast.expr) -> bool:
    """Whether an expression is `x.shape` or a slice of it."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Slice) and _is_shape(node.value)
    if not (isinstance(node, ast.Attribute) and node.attr == "shape"):
        return False
    return bool(variable_of(node.value))


def _parts(items: Sequence[ast.expr], frame: types.FrameType) -> Iterator[ShapePart]:
    position = 0
    for item in items:
        if not isinstance(item, ast.Starred):
            position += 1
            continue
        part = _part(item.value, position, frame)
        if part is None:  # where the next ones stand is unknown
            return
        yield part
        position += len(part.sizes)


def _part(node: ast.expr, position: int, frame: types.FrameType) -> ShapePart | None:
    if not _is_shape(node):
        return None
    ends: tuple[int | None, int | None] = (None, None)
    if isinstance(node, ast.Subscript):
        assert isinstance(node.slice, ast.Slice)
        try:
            lower, upper = map(_end, (node.slice.lower, node.slice.upper))
        except ValueError:
            return None
        if node.slice.step is not None:
            return None
        ends, node = (lower, upper), node.value
    assert isinstance(node, ast.Attribute)
    is_here = is_local(variable_of(node.value), frame)
    array = static_value(node.value, frame) if is_here else None
    return ShapePart(array, *ends, position) if is_any_array(array) else None


def _end(node: ast.expr | None) -> int | None:
    """Return a number that stands in the source.

    Raises:
      ValueError: If it is an expression.
    """
    value: Any = None if node is None else ast.literal_eval(node)
    if value is not None and type(value) is not int:
        raise ValueError
    return value
