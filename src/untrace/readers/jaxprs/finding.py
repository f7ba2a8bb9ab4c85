"""Find printed jaxprs in a text around them: an issue, a traceback, a log.

Marks that stand before every line, of quotations and logs, are blanked, so that places in
the text stay what they are.
"""

from __future__ import annotations

import re

_JAXPR = re.compile(r"\{\s*lambda\b")
_DEFINITION = re.compile(r"let [^\n]{1,200}=[ \t]*\Z")
_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_MARKED = re.compile(r"[ \t]*[>|#*E:][>|#*: \t]*")


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


def blanked(text: str, start: int) -> str:
    """Return the text with spaces for colors, and for marks before lines like the one at a place."""
    text = _COLOR.sub(lambda found: " " * len(found[0]), text)
    line = text.rfind("\n", 0, start) + 1
    mark = text[line:start]
    if not mark.strip() or not _MARKED.fullmatch(mark):
        return text
    sign = mark.rstrip()
    after = text[start:].split("\n")
    lines = [
        " " * len(sign) + each[len(sign) :] if each.startswith(sign) else each
        for each in after[1:]
    ]
    return text[:start] + "\n".join([after[0], *lines])
