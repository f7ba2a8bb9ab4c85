"""The keys that the program makes of what it was given: `params[f"layer{name}_w"]`, `f"{self.name}.w"`."""

from __future__ import annotations

import ast
import functools
import types
from collections.abc import Iterator, Mapping
from typing import Any

from untrace.recovery.expressions import source_tree
from untrace.recovery.record import is_library

KeyParts = tuple[tuple[int, str], ...]
"""Where in a key something stands that a parameter held, and its text."""

_Key = tuple[ast.Constant | ast.Name, ...]
"""What a key is made of, in order: texts, and variables."""

_BOTH: set[type] = {ast.Constant, ast.Name}


def made_keys(code: types.CodeType, held: Mapping[str, Any]) -> dict[str, KeyParts]:
    """Return the keys that a function of the user makes of its parameters.

    Args:
      code: The function.
      held: What its parameters held.

    Returns:
      Each key, with the places of what it is made of. Keys that can be made in several ways
      are left out.
    """
    texts = {n: str(v) for n, v in held.items() if type(v) in (str, int)}
    if not texts or is_library(code):
        return {}
    ways: dict[str, set[KeyParts]] = {}
    for parts in _keys(code):
        made = _made(parts, texts)
        if made is not None:
            ways.setdefault(made[0], set()).add(made[1])
    return {key: known.pop() for key, known in ways.items() if len(known) == 1}


def _made(parts: _Key, texts: Mapping[str, str]) -> tuple[str, KeyParts] | None:
    key, places = "", list[tuple[int, str]]()
    for part in parts:
        if isinstance(part, ast.Constant):
            key += str(part.value)
        elif part.id in texts:
            places.append((len(key), texts[part.id]))
            key += texts[part.id]
        else:
            return None
    return key, tuple(places)


@functools.lru_cache(maxsize=1024)
def _keys(code: types.CodeType) -> tuple[_Key, ...]:
    """Return what a function makes texts of."""
    tree = source_tree(code.co_filename)
    lines = {line for _, _, line in code.co_lines() if line is not None}
    if tree is None or not lines:
        return ()
    found: list[_Key] = []
    for node in ast.walk(tree):
        if not isinstance(node, (ast.JoinedStr, ast.BinOp)):
            continue
        if min(lines) <= node.lineno <= max(lines):
            parts = [*_parts(node)]
            known = tuple([part for part in parts if part is not None])
            if len(known) == len(parts) and {*map(type, known)} == _BOTH:
                found.append(known)
    return tuple(found)


def _parts(node: ast.expr) -> Iterator[ast.Constant | ast.Name | None]:
    """Yield the texts and variables that are put together; None for anything else."""
    match node:
        case ast.JoinedStr(values=values):
            for value in values:
                yield from _parts(value)
        case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
            yield from _parts(value)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _parts(left)
            yield from _parts(right)
        case ast.Constant(value=str()) | ast.Name():
            yield node
        case ast.Attribute(attr=name):
            yield ast.Name(name.strip("_"))
        case _:
            yield None
