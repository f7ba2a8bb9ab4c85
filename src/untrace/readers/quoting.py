"""Texts with something around them: what is blanked, so that places stay what they are."""

from __future__ import annotations

import re

_MARKED = re.compile(r"[ \t]*[>|#*E:][>|#*: \t]*")
_INK = re.compile(r"[^\n]")


def mark_before(text: str, start: int) -> str | None:
    """Return the mark of a quotation or a log before a place in its line, "" for none.

    None if other text stands there.

    >>> mark_before("> > f()", 4), mark_before("    f()", 4), mark_before("see f()", 4)
    ('> >', '', None)
    """
    mark = text[text.rfind("\n", 0, start) + 1 : start].rstrip()
    return mark if not mark or _MARKED.fullmatch(mark) else None


def without_marks(text: str, mark: str) -> str:
    """Return a text with spaces for a mark before its lines but the first."""
    first, *lines = text.split("\n")
    lines = [
        " " * len(mark) + each[len(mark) :] if each.startswith(mark) else each
        for each in lines
    ]
    return "\n".join([first, *lines])


def blank(text: str) -> str:
    """Return spaces in place of a text, in as many lines."""
    return _INK.sub(" ", text)
