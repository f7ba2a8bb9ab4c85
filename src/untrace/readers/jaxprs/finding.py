"""Find printed jaxprs in a text around them: an issue, a traceback, a log.

Marks that stand before every line, of quotations and logs, are blanked, so that places in
the text stay what they are.
"""

from __future__ import annotations

import re

from untrace.readers.quoting import mark_before, without_marks

_JAXPR = re.compile(r"\{\s*lambda\b")
_DEFINITION = re.compile(r"let [^\n]{1,200}=[ \t]*\Z")
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_COMMENT = re.compile(r"(?<=[ \t])#[^\n]*")


def looks_like_jaxpr(text: str) -> bool:
    """Whether a text has something that begins like a printed jaxpr.

    >>> looks_like_jaxpr("it prints { lambda ; a:f32[]. let in (a,) }")
    True
    """
    return _JAXPR.search(text) is not None


def places(text: str) -> list[int]:
    """Return where jaxprs begin that are not in others.

    What is defined by `let name = ...` before a jaxpr belongs to it, and so do those that
    follow up to the jaxpr itself.
    """
    found: list[int] = []
    end = 0
    for match in _JAXPR.finditer(text):
        start = match.start()
        if start < end:
            continue
        line = text.rfind("\n", 0, start) + 1
        definition = _DEFINITION.search(text, max(line, start - 220), start)
        start = definition.start() if definition else start
        before = text[max(0, start - 200) : start].rstrip()
        is_later = before.endswith("in") and before[:-2].rstrip().endswith("}")
        if not is_later:
            found.append(start)
        end = _closing(text, match.start())
    return found


def _closing(text: str, start: int) -> int:
    """Return where the brace is closed that opens at a place, the end if it is not."""
    depth = 0
    for match in _BRACE.finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if not depth:
            return match.end()
    return len(text)


_BRACE = re.compile(r"[{}]")


def without_colors(text: str) -> str:
    """Return a text with spaces for the codes of colors."""
    return _COLOR.sub(_spaces, text)


def blanked(text: str, start: int) -> str:
    """Return a text with spaces for what is written beside a jaxpr.

    These are marks before all lines like the one before the jaxpr, and comments, in which
    JAX says where equations are from.
    """
    mark = mark_before(text, start)
    jaxpr = without_marks(text[start:], mark) if mark else text[start:]
    return text[:start] + _COMMENT.sub(_spaces, jaxpr)


def _spaces(found: re.Match[str]) -> str:
    return " " * len(found[0])
