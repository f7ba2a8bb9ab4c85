"""String literals in ruff's spelling."""

from __future__ import annotations


def quote(text: str) -> str:
    r"""Write a string literal, double-quoted where that needs no more escapes.

    >>> print(quote("it's"), quote('say "hi"'), quote("a\nb"))
    "it's" 'say "hi"' "a\nb"
    """
    literal = repr(text)
    if literal[0] == '"' or '"' in text:
        return literal
    return '"' + literal[1:-1].replace("\\'", "'") + '"'
