"""Lay out what a function returns: several results that may not fit into a line."""

from __future__ import annotations

import ast

from untrace.parsing import parse

MAX_LINE = 79
"""Characters of an expression that fits into a line of a function."""


def is_long_tuple(text: str) -> bool:
    """Whether several results do not fit into a line."""
    return len(text) > MAX_LINE and bool(_items(text))


def returned_text(text: str) -> str:
    """Return the text of a result; a tuple over lines is in brackets, or its last item."""
    items = _items(text)
    are_names = all(isinstance(one, (ast.Name, ast.Constant)) for one in items[:-1])
    is_bare = bool(items) and (len(text) <= MAX_LINE or are_names)
    return text[1:-1] if is_bare else text


def _items(text: str) -> list[ast.expr]:
    """Return the items of a tuple of several that is in brackets; else none."""
    if not text.startswith("(") or text.endswith(",)"):
        return []
    try:
        node = parse(text, "eval").body
    except SyntaxError:  # names that are not settled yet may be anything
        return []
    return node.elts if isinstance(node, ast.Tuple) else []
