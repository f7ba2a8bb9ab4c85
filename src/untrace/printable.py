"""Text for terminals and files: what cannot be printed is shown, not sent.

Line ends, control characters, marks that turn the direction of text, NUL and halves of
surrogate pairs are written as Python escapes them.
"""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Return one line that shows a text.

    >>> print(printable("a\nb\x1b[31m\u202e"))
    a\nb\x1b[31m\u202e
    """
    plain = str.__str__(text)  # never that of a subclass, which may show anything
    if plain.isprintable():
        return plain
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in plain
    )


def printable_lines(text: str) -> str:
    """Return the lines of a text, in which nothing else is escaped."""
    return "\n".join(map(printable, str.__str__(text).split("\n")))
