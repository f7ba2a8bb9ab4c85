"""Jaxprs as they are pasted in issues and pull requests of JAX, typed again.

Where a thread shows some equations of a jaxpr, the lines around them are ours.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_HEADER = re.compile(r"^=== (\S+)(?: \| (.*))?\n", re.MULTILINE)


class Pasted(NamedTuple):
    """A thread, what is said if its text cannot be read, and the text."""

    thread: str
    error: str
    text: str


def pasted() -> list[Pasted]:
    """List the texts of `pasted.txt`."""
    content = Path(__file__).with_suffix(".txt").read_text()
    parts = _HEADER.split(content)[1:]
    return [
        Pasted(thread, error or "", text)
        for thread, error, text in zip(parts[::3], parts[1::3], parts[2::3])
    ]
