"""Which loops of the program a call stands in, and what their variables hold then."""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Iterator
from typing import Any

from untrace.recovery.expressions import held_by, source_tree
from untrace.recovery.instructions import listing_of
from untrace.recovery.record import End, Turn, is_library
from untrace.recovery.sites import once_per_site
from untrace.recovery.targets import loops_around

_Position = tuple[int, int]
"""A line and a column of the source."""


def turn_of(
    frame: types.FrameType, parent: types.FrameType | None
) -> tuple[tuple[tuple[str, ...], ...], Turn]:
    """Return the loops around a call, the innermost one first, and the turns it is in.

    Comprehensions and generators have frames of their own, up to Python 3.11 or always.

    Args:
      frame: The one that makes the call.
      parent: That of the recorded function around it.

    Returns:
      The variables of each loop, and what they hold.
    """
    around: list[tuple[str, ...]] = []
    held: dict[str | End, Any] = {}
    back: types.FrameType | None = frame
    while back is not None:
        loops = loops_around(back.f_code, back.f_lasti)
        around += loops
        for name, value in turn_at(loops, back):
            held.setdefault(name, value)
        back = None if back is parent else back.f_back
    return tuple(around), tuple(held.items())


def turn_at(loops: tuple[tuple[str, ...], ...], frame: types.FrameType) -> Turn:
    """Return what the variables of loops hold in a frame, and what these count to."""
    names = [name for variables in loops for name in variables]
    if not names:
        return ()
    values = frame.f_locals
    held = [(n, values[n]) for n in dict.fromkeys(names) if n in values]
    local = listing_of(frame.f_code).variables
    ends = [
        (End(name, name in local), value)
        for name in _counted_to(frame.f_code, frame.f_lasti)
        if type(value := held_by(name, frame)) is int
    ]
    return tuple(held + ends)


@once_per_site
def _counted_to(code: types.CodeType, lasti: int) -> tuple[str, ...]:
    """Return the variables that loops around an instruction count to.

    Loops of libraries are left out.
    """
    line, _, column, _ = listing_of(code).place_at(lasti)
    if is_library(code) or line is None or column is None:
        return ()
    return tuple(
        [
            name
            for name, first, last in _ranges(code.co_filename)
            if first <= (line, column) < last
        ]
    )


@functools.lru_cache(maxsize=256)
def _ranges(filename: str) -> tuple[tuple[str, _Position, _Position], ...]:
    """Return the names in `range(N)` that loops are over, and where their turns stand."""
    tree = source_tree(filename)
    return tuple(_ranges_in(tree)) if tree is not None else ()


def _ranges_in(tree: ast.AST) -> Iterator[tuple[str, _Position, _Position]]:
    for node in ast.walk(tree):
        over: list[ast.expr] = []
        turns: list[ast.stmt] | list[ast.expr] = []
        if isinstance(node, ast.For):
            over, turns = [node.iter], node.body
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            over, turns = [one.iter for one in node.generators], [node.elt]
        for name in map(_end_of_range, over):
            if name:
                last = turns[-1]
                end = last.end_lineno or 0, last.end_col_offset or 0
                yield name, (turns[0].lineno, turns[0].col_offset), end


def _end_of_range(over: ast.expr) -> str:
    """Return `N` if an expression is `range(N)`."""
    match over:
        case ast.Call(ast.Name("range"), [ast.Name(name)], []):
            return name
        case _:
            return ""
