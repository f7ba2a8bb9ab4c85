"""Rewrite the calls of functions in the lines of a finished module."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from untrace.syntax.text import STRING, is_comment

_STRING = re.compile(STRING)
_SPECIAL = re.compile(r"\*|\w+=(?!=)")

Change = Callable[[str, list[str]], tuple[str, list[str]] | None]
"""Gives a call another function and other arguments; None refuses it."""


class PlainCalls:
    """Finds functions in lines, and rewrites calls that pass arguments by position.

    Attributes:
      is_refused: A function was not called, or not so, and cannot be rewritten.
    """

    def __init__(self, names: Iterable[str]) -> None:
        joined = "|".join(map(re.escape, names))
        self._name = re.compile(rf"(?<![\w.])({joined})(?!\w)")
        self.is_refused = False

    def mentions(self, lines: Iterable[str]) -> bool:
        """Whether lines name one of the functions."""
        return any(self._name.search(_blank(line)) for line in lines)

    def renamed(self, line: str, name: str) -> str:
        """Give the functions another name, whether they are called or not."""
        for match in reversed(list(self._name.finditer(_blank(line)))):
            line = f"{line[: match.start()]}{name}{line[match.end() :]}"
        return line

    def rewrite(self, line: str, change: Change) -> str:
        """Change the calls in a line; a use that is no call is refused."""
        for match in reversed(list(self._name.finditer(_blank(line)))):
            stop = _closing(line, match.end())
            inner = line[match.end() + 1 : stop] if stop is not None else ""
            is_plain = stop is not None and not _has_special(inner)
            changed = change(match[1], split(inner)) if is_plain else None
            if changed is None:
                self.is_refused = True
                return line
            name, arguments = changed
            called = f"{name}({', '.join(arguments)}"
            line = f"{line[: match.start()]}{called}{line[stop:]}"
        return line


def split(arguments: str) -> list[str]:
    """Return what stands between the commas of a call, or of a parameter list."""
    text, parts, start = f"{_blank(arguments)},", list[str](), 0
    depth = 0
    for position, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if depth == 0 and char == ",":
            parts.append(arguments[start:position].strip())
            start = position + 1
    return [part for part in parts if part]


def _has_special(arguments: str) -> bool:
    """Whether arguments are passed by keyword or with a star."""
    return any(_SPECIAL.match(part) for part in split(arguments))


def _blank(text: str) -> str:
    """Return a text of the same length without what its strings, or a comment, say."""
    if is_comment(text):
        return "_" * len(text)
    return _STRING.sub(lambda m: "_" * len(m[0]), text)


def _closing(line: str, start: int) -> int | None:
    """Return where the bracket that opens at `start` closes; None if there is none."""
    if not line.startswith("(", start):
        return None
    text, depth = _blank(line), 0
    for position in range(start, len(text)):
        depth += (text[position] in "([{") - (text[position] in ")]}")
        if depth == 0:
            return position
    return None
