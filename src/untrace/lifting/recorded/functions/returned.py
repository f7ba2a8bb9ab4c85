"""Lay out what a function returns: several results that may not fit into a line."""

from __future__ import annotations

from collections.abc import Sequence

from untrace.lifting.recorded.terms import TUPLE_OF, Term
from untrace.syntax.text import QUOTES

MAX_LINE = 79
"""Characters of an expression that fits into a line of a function."""


def is_long_tuple(result: Term) -> bool:
    """Whether several results do not fit into a line."""
    return len(_items(result)) > 1 and len(result.render()) > MAX_LINE


def returned_text(result: Term) -> str:
    """The text of a result; a tuple over lines is in brackets, or its last item."""
    text, items = result.render(), _items(result)
    is_bare = len(text) <= MAX_LINE or all(map(_is_word, items[:-1]))
    return ", ".join(items) if len(items) > 1 and is_bare else text


def _items(result: Term) -> Sequence[str]:
    """The texts of the items of a tuple."""
    group = result.opened().group
    is_tuple = group is not None and group.kind == TUPLE_OF and not group.tail
    return group.texts() if group is not None and is_tuple else ()


def _is_word(item: str) -> bool:
    """Whether an item is a variable, a number or a string."""
    return item.isidentifier() or item[0].isdecimal() or item[0] in QUOTES
