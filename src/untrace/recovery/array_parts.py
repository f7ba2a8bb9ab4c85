"""What to call constant arrays that the caller's code makes of others where it passes them.

`jnp.dot(x, self.axes[1:])` is given an array that no variable holds: it is called `axes`,
after what it is a part of.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from untrace.recovery.expressions import given_at, static_value
from untrace.syntax.names import is_name

_KEEPS_MEANING = frozenset(
    {"astype", "copy", "flatten", "ravel", "reshape", "squeeze", "transpose"}
)
"""Methods of arrays whose results one would call as the arrays."""
_CONTAINERS = (np.ndarray, tuple, list, dict)


def part_names(frame: types.FrameType, arrays: Sequence[Any]) -> list[tuple[int, str]]:
    """Return names for the arrays that a call is given, in their order.

    Args:
      frame: The caller's, which is at the call.
      arrays: The constant arrays that it is given and that no variable holds.

    Returns:
      The identity of each array and its name; none if it is not clear which is which.
    """
    nodes = _flattened(given_at(frame.f_code, frame.f_lasti))
    nouns = [noun for node in nodes if (noun := _noun(node, frame))]
    if len(nouns) != len(arrays):
        return []
    return [(id(array), noun) for array, noun in zip(arrays, nouns)]


def _flattened(nodes: Iterable[ast.expr]) -> Iterator[ast.expr]:
    """Yield what is given, with the members of lists and tuples."""
    for node in nodes:
        if isinstance(node, ast.List | ast.Tuple):
            yield from _flattened(node.elts)
        else:
            yield node


def _noun(node: ast.expr, frame: types.FrameType) -> str | None:
    """Return the last word of what a part is taken of; None if that holds no constants."""
    is_part = False
    key = None
    while True:
        match node:
            case ast.Subscript(value=owner, slice=index):
                word = index.value if isinstance(index, ast.Constant) else None
                if key is None and isinstance(word, str) and is_name(word):
                    key = word
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if (
                name in _KEEPS_MEANING
            ):
                pass
            case ast.Attribute(value=owner, attr="T"):
                pass
            case _:
                break
        node, is_part = owner, True
    if not is_part or not isinstance(static_value(node, frame), _CONTAINERS):
        return None
    if key is not None:
        return key
    return node.attr if isinstance(node, ast.Attribute) else ast.unparse(node)
