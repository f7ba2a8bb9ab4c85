"""Lay out what a function returns: several results that may not fit into a line."""

from __future__ import annotations

import re

MAX_LINE = 79
"""Characters of an expression that fits into a line of a function."""
_NAMES = re.compile(r"^(\w+, )+")


def is_long_tuple(text: str) -> bool:
    """Whether several results do not fit into a line."""
    return len(text) > MAX_LINE and _bare_tuple(text) != text


def returned_text(text: str) -> str:
    """Write what is returned; a tuple over lines is in brackets, or only its last item."""
    if is_long_tuple(text) and not _is_one_after_names(text):
        return text
    return _bare_tuple(text)


def _is_one_after_names(text: str) -> bool:
    """Whether all items of a tuple but the last are names."""
    last = _NAMES.sub("", text[1:-1])
    return last != text[1:-1] and _bare_tuple(f"({last})") == f"({last})"


def _bare_tuple(text: str) -> str:
    """Drop the brackets around a returned tuple of several items."""
    if not text.startswith("(") or text.endswith(",)") or text == "()":
        return text
    depth = 0
    has_comma = False
    for position, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        has_comma = has_comma or (char == "," and depth == 1)
        if depth == 0 and position < len(text) - 1:
            return text
    return text[1:-1] if has_comma else text
