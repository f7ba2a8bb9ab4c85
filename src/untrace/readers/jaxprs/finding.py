"""Find printed jaxprs in a text around them: an issue, a traceback, a log.

Marks that stand before every line, of quotations and logs, are blanked, so that places in
the text stay what they are.
"""

from __future__ import annotations

import re

from untrace.readers.quoting import mark_before, without_marks

_JAXPR = re.compile(r"\{\s*lambda\b")
WIDEST = 20_000
"""How many characters the name of a definition may have."""
FARTHEST = 4_000
"""How many characters behind a definition the use of a name of several lines is sought."""
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
# A function may be called `#`.
_COMMENT = re.compile(r"(?<=[ \t])(?!(?<=let )#\w* = \{ lambda\b)#[^\n]*")


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
        definition = _definition(text, end, start)
        start = start if definition is None else definition[0]
        before = text[max(0, start - 200) : start].rstrip()
        is_later = before.endswith("in") and before[:-2].rstrip().endswith("}")
        if not is_later:
            found.append(start)
        end = _closing(text, match.start())
    return found


def odd_names(text: str, start: int = 0) -> list[str]:
    """Return the names of definitions behind a place that hold quotes, braces or lines.

    >>> odd_names("let {x} = { lambda ; a:f32[]. let in (a,) } in")
    ['{x}']
    """
    found: dict[str, None] = {}
    for match in _JAXPR.finditer(text, start):
        definition = _definition(text, start, match.start())
        if definition is not None and _ODD.search(definition[1]):
            found[definition[1]] = None
    return [*found][:MAX_ODD]


def _definition(text: str, lower: int, start: int) -> tuple[int, str] | None:
    """Return where `let name =` begins before a jaxpr, and the name."""
    stop = start
    while stop > lower and text[stop - 1] in " \t":
        stop -= 1
    if stop == lower or text[stop - 1] != "=":
        return None
    widest = max(lower, start - WIDEST)
    line = max(text.rfind("\n", widest, start) + 1, widest)
    first = text.find("let ", line, start)
    if first >= 0:
        return first, text[first + 4 : stop - 1].strip()
    # A name may hold line breaks. That it is one shows where it is used.
    first = text.rfind("let ", widest, line)
    name = text[first + 4 : stop - 1].strip() if first >= 0 else ""
    if not name or text.find(f"={name}", start, start + FARTHEST) < 0:
        return None
    return first, name


_ODD = re.compile(r"['\"{}\n]")
MAX_ODD = 100
"""How many such names a text may have."""


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
