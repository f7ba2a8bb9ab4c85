"""String literals in ruff's spelling."""

from __future__ import annotations

import linecache


def quote(text: str) -> str:
    r"""Write a string literal, double-quoted where that needs no more escapes.

    >>> print(quote("it's"), quote('say "hi"'), quote("a\nb"))
    "it's" 'say "hi"' "a\nb"
    """
    literal = repr(text)
    if literal[0] == '"' or '"' in text:
        return literal
    return '"' + literal[1:-1].replace("\\'", "'") + '"'


def quoted_line(filename: str, line: int) -> str:
    """Quote a line of a file for a comment, and say where it stands.

    Without the file there is only the place.
    """
    file = filename.replace("\\", "/").rpartition("/")[2]
    text = " ".join(linecache.getline(filename, line).split())
    whole = f"{text}  ({file}:{line})" if text else f"{file}:{line}"
    return "".join(char if char.isprintable() else "?" for char in whole)
