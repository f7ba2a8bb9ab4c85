"""Find expressions in the caller's source file, and what its names hold."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import linecache
import types
from typing import Any, NamedTuple

from untrace.parsing import parse
from untrace.recovery.instructions import listing_of

_Place = tuple[int, int, int, int]
_OPERATIONS = (
    *(ast.Attribute, ast.AugAssign, ast.BinOp, ast.Call, ast.Compare, ast.Subscript),
    ast.UnaryOp,
)


def expression_at(code: types.CodeType, lasti: int) -> ast.expr | ast.AugAssign | None:
    """Return the call or operation that an instruction does, or the attribute it takes."""
    places = listing_of(code).place_at(lasti)
    if None in places:
        return None
    first, last, start, stop = places
    nodes = _nodes(code.co_filename)
    return nodes.get((first or 0, last or 0, start or 0, stop or 0))


def given_at(code: types.CodeType, lasti: int) -> list[ast.expr]:
    """List what the call or operation that an instruction does is given.

    A call such as `x.at[2:].set(y)` is given the index, too.
    """
    node = expression_at(code, lasti)
    if isinstance(node, ast.Call):
        given = [*node.args, *(k.value for k in node.keywords)]
        match node.func:
            case ast.Attribute(ast.Subscript(ast.Attribute(_, "at"), index)):
                return [index, *given]
            case _:
                return given
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.AugAssign):  # `x /= n`
        return [node.target, node.value]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    return [node.slice] if isinstance(node, ast.Subscript) else []


@functools.lru_cache(maxsize=256)
def _nodes(filename: str) -> dict[_Place, ast.expr | ast.AugAssign]:
    """Find the expressions of a file by their places."""
    found: dict[_Place, ast.expr | ast.AugAssign] = {}
    tree = source_tree(filename)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, _OPERATIONS):
            line, column = _start(node)
            place = line, node.end_lineno or 0, column, node.end_col_offset or 0
            found[place] = node
    return found


def _start(node: ast.expr | ast.AugAssign) -> tuple[int, int]:
    """Return the line and column where Python says that an operation begins.

    That of a method in a later line than its object is where its name stands.
    """
    method = node.func if isinstance(node, ast.Call) else None
    if isinstance(method, ast.Attribute) and method.end_lineno != node.lineno:
        stop = method.end_col_offset or 0
        return method.end_lineno or 0, stop - len(method.attr)
    return node.lineno, node.col_offset


@functools.lru_cache(maxsize=256)
def source_tree(filename: str) -> ast.Module | None:
    """Parse a source file; None if it cannot be read."""
    try:
        return parse("".join(linecache.getlines(filename)))
    except (SyntaxError, ValueError, RecursionError):
        return None


def held_by(name: str, frame: types.FrameType) -> Any:
    """Return what a name holds, locally or else globally."""
    values = frame.f_locals if is_local(name, frame) else frame.f_globals
    return values.get(name)


def is_local(name: str, frame: types.FrameType) -> bool:
    """Return whether a name is one of a function's variables, or closed over.

    Asking `f_locals` would take as long as there are variables, each time.
    """
    if frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return name in listing_of(frame.f_code).variables
    return name in frame.f_locals


def static_value(node: ast.expr, frame: types.FrameType) -> Any:
    """Return what a name, its attributes and its items hold, without running any code."""
    if isinstance(node, ast.Name):
        return held_by(node.id, frame)
    if isinstance(node, ast.Attribute):
        owner = static_value(node.value, frame)
        return None if owner is None else static_attribute(owner, node.attr)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        owner, key = static_value(node.value, frame), node.slice.value
        if type(owner) is dict or (type(owner) in (list, tuple) and type(key) is int):
            with contextlib.suppress(LookupError):
                return owner[key]
    return None


def static_attribute(owner: Any, name: str) -> Any:
    """Return an attribute without running any code: fields of NamedTuples, slots, too."""
    found = inspect.getattr_static(owner, name, None)
    if type(found) not in _FIELDS or isinstance(owner, type):
        return found
    try:
        return found.__get__(owner)
    except AttributeError:  # nothing is in the slot yet
        return None


class _Fields(NamedTuple):
    first: Any


_FIELDS = (types.MemberDescriptorType, type(vars(_Fields)["first"]))
"""The classes of attributes that Python itself reads: slots, fields of NamedTuples."""
