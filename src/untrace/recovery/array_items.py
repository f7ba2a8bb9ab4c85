"""Items of constant arrays that a call is given: `OPPOSITE[i]`, `dx` of `for dx, dy in STEPS`.

NumPy makes a number of its own of every item. Which array it is of, and where it stands
there, is told by the caller's source, and only counts if the item is the very same number.
"""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from untrace.recovery.expressions import given_at, held_by, source_tree
from untrace.recovery.record import ArrayItem
from untrace.recovery.sites import once_per_site


def array_items(frame: types.FrameType, values: Iterable[Any]) -> tuple[ArrayItem, ...]:
    """Return which items of constant arrays a call is given.

    Args:
      frame: The caller's, which is at the call.
      values: What the call was given, with the parts of indices.
    """
    numbers = [value for value in values if isinstance(value, np.number)]
    if not numbers:
        return ()
    found: list[ArrayItem] = []
    for node in _arguments(frame.f_code, frame.f_lasti):
        place = _place(node, frame)
        if place is not None:
            array, index = place
            item = array[index]
            found += [
                ArrayItem(value, array, index) for value in numbers if _is(value, item)
            ]
    return tuple(found)


def _is(value: Any, item: Any) -> bool:
    return type(value) is type(item) and value.tobytes() == item.tobytes()


@once_per_site
def _arguments(code: types.CodeType, lasti: int) -> tuple[ast.expr, ...]:
    """Return what may be an item of an array among the arguments of a call."""
    nodes = [inner for node in given_at(code, lasti) for inner in _parts(node)]
    return tuple([n for n in nodes if isinstance(n, (ast.Name, ast.Subscript))])


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.Tuple):
        for item in node.elts:
            yield from _parts(item)
    else:
        yield node


_Place = tuple[np.ndarray[Any, Any], tuple[int, ...]]


def _place(node: ast.expr, frame: types.FrameType) -> _Place | None:
    """Return the array and the index of an item, as the source has them."""
    if isinstance(node, ast.Name):
        return _of_loop(node, frame)
    if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)):
        return None
    array = held_by(node.value.id, frame)
    index = tuple([_integer(part, frame) for part in _parts(node.slice)])
    return _checked(array, index)


def _checked(array: Any, index: Sequence[int | None]) -> _Place | None:
    """Return a place if it is that of one number."""
    if type(array) is not np.ndarray or array.ndim != len(index):
        return None
    known = [n for n in index if n is not None]
    is_inside = len(known) == len(index) and all(
        0 <= n < size for n, size in zip(known, array.shape)
    )
    return (array, tuple(known)) if is_inside else None


def _integer(node: ast.expr, frame: types.FrameType) -> int | None:
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(node, ast.Name):
        value = held_by(node.id, frame)
    return value if type(value) is int else None


# ---- variables of loops ----------------------------------------------------------------


def _of_loop(node: ast.Name, frame: types.FrameType) -> _Place | None:
    """Return the item of an array that a variable of a loop over it holds."""
    for loop in _loops(frame.f_code.co_filename).get(node, ()):
        target, iterated = loop.target, loop.iter
        if _is_enumerated(iterated) and isinstance(target, ast.Tuple):
            target, iterated = target.elts[-1], iterated.args[0]  # type: ignore[attr-defined]
        array = held_by(iterated.id, frame) if isinstance(iterated, ast.Name) else None
        if type(array) is not np.ndarray:
            continue
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        if not all(isinstance(one, ast.Name) for one in names):
            continue
        row = [held_by(one.id, frame) for one in names]  # type: ignore[attr-defined]
        if not all(isinstance(number, np.number) for number in row):
            continue
        rows = array.reshape(len(array), -1)
        places = [k for k, other in enumerate(rows) if np.array_equal(other, row)]
        words = [one.id for one in names]  # type: ignore[attr-defined]
        if len(places) == 1 and node.id in words:
            column = [words.index(node.id)] if isinstance(target, ast.Tuple) else []
            return _checked(array, [places[0], *column])
    return None


def _is_enumerated(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "enumerate"
        and len(node.args) == 1
    )


@functools.lru_cache(maxsize=256)
def _loops(filename: str) -> dict[ast.AST, list[ast.For]]:
    """Return the loops around each variable of a file that is read, the innermost first."""
    tree = source_tree(filename)
    found: dict[ast.AST, list[ast.For]] = {}
    for loop in ast.walk(tree) if tree is not None else ():
        if isinstance(loop, ast.For):
            for inner in ast.walk(loop):
                if isinstance(inner, ast.Name):
                    found.setdefault(inner, []).insert(0, loop)
    return found
