"""Text for terminals and files: what cannot be printed is shown, not sent.

Line ends, control characters, marks that turn the direction of text, NUL and halves of
surrogate pairs are written as Python escapes them.
"""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_FOLDERS = re.compile(r"(?<!\S)\S*[\\/](?=[\w-]+\.py\b)")


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


def reworded(text: str) -> str:
    """Write a message in one line, without addresses and folders of this machine.

    >>> reworded("an error\\n at /home/me/rules.py:7 in <f at 0x7f00aa11bb22>")
    'an error at rules.py:7 in <f at 0x...>'
    """
    text = _ADDRESS.sub("0x...", " ".join(text.split()))
    return _FOLDERS.sub("", text)
