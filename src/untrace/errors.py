"""Errors a caller would treat differently, all under `UntraceError`.

Every message says what happened, where in the user's program, and what to do next.
"""

from __future__ import annotations

import types
from pathlib import Path

from untrace.printable import printable_lines


class UntraceError(Exception):
    """Base class of every error that `untrace` raises on purpose."""

    def __str__(self) -> str:
        return printable_lines(super().__str__())


class CaptureError(UntraceError):
    """The function or jaxpr could not be read."""


class LiftingError(UntraceError):
    """An equation cannot be written as Python text."""


class UnverifiedWarning(UserWarning):
    """Source is returned that could not be proved; its header says so."""


class SaveError(UntraceError):
    """A file could not be written; nothing half-written is left behind."""


class LoadError(UntraceError):
    """A saved file or its sidecar is missing, altered or not ours."""


class CallError(UntraceError, TypeError):
    """A loaded function is called otherwise than the original was."""


class KeepError(UntraceError):
    """A predicate cannot be read, does not hold for the original, or for everything."""


def foreign_frames(trace: types.TracebackType | None) -> types.TracebackType | None:
    """Drop the frames of this package from a traceback."""
    ours = str(Path(__file__).parent)
    frames: list[types.TracebackType] = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(ours):
            frames.append(trace)
        trace = trace.tb_next
    kept: types.TracebackType | None = None
    for frame in reversed(frames):
        kept = types.TracebackType(
            kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno
        )
    return kept
