"""Show a program as it is after every pass, to whoever watches: `--debug-passes`."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Generator
from contextvars import ContextVar

Watcher = Callable[[str, str, str], None]
"""Is given the name of a pass, what it was done to, and the text of that afterwards."""

_WATCHER: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextlib.contextmanager
def watching(watcher: Watcher) -> Generator[None]:
    """Show every pass of what is written inside to a watcher."""
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


class PassPrinter:
    """Prints what every pass changed: the text that is new, or the lines that differ.

    Args:
      write: Prints a text.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._texts: dict[str, str] = {}

    def __call__(self, name: str, subject: str, text: str) -> None:
        """Print what a pass changed."""
        before = self._texts.get(subject)
        self._texts[subject] = text
        about = f" `{subject}`" if subject else ""
        if name == "write" or before is None:
            self._write(f"--- {name}{about}\n{text}\n")
        elif text != before:
            rows = difflib.unified_diff(before.split("\n"), text.split("\n"), n=1)
            changed = [row for row in rows if row[:3] not in ("---", "+++", "@@ ")]
            self._write("\n".join([f"--- {name}{about}", *changed, ""]))


def is_watched() -> bool:
    """Whether anybody watches: else no text is made for it."""
    return _WATCHER.get() is not None


def show(name: str, subject: str, text: str) -> None:
    """Show what a pass made of something."""
    watcher = _WATCHER.get()
    if watcher is not None:
        watcher(name, subject, text)
