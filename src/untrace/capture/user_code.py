"""Trace what the user wrote: nests may be deep, and errors keep the user's own traceback."""

from __future__ import annotations

import contextlib
import types

from untrace import jaxapi
from untrace.errors import UntraceError, foreign_frames

MAX_FRAMES = 10_000
"""Python's recursion limit meanwhile."""


class user_code(contextlib.AbstractContextManager[None]):  # noqa: N801: it reads as one
    """A context in which the user's function is traced.

    Errors of the user's code leave it without frames of this package.

    Args:
      advice: What to add to such an error.
    """

    def __init__(self, advice: str = "") -> None:
        self._advice = advice
        self._deep = jaxapi.deep_recursion(MAX_FRAMES)

    def __enter__(self) -> None:
        self._deep.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self._deep.__exit__(kind, error, trace)
        if isinstance(error, Exception) and not isinstance(error, UntraceError):
            if self._advice:
                error.add_note(self._advice)
            error.__traceback__ = foreign_frames(trace)
