"""Errors a caller would treat differently, all under `UntraceError`.

Every message says what happened, where in the user's program, and what to do next.
"""

from __future__ import annotations

import traceback
import types

from untrace.folder import OWN_FOLDER
from untrace.printable import printable_lines, reworded

_SHOWN = 60  # characters of a line on both sides of a place


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


class ParseError(LoadError):
    """A text cannot be read as a program.

    Attributes:
      line: Number of the line that is not understood, counted from 1.
      column: Number of the character in it, counted from 1.
    """

    def __init__(
        self, problem: str, text: str = "", position: int = 0, advice: str = ""
    ) -> None:
        start = text.rfind("\n", 0, position) + 1
        end = text.find("\n", position)
        shown = text[start : len(text) if end < 0 else end].replace("\t", " ")
        self.line = text.count("\n", 0, position) + 1
        self.column = position - start + 1
        before = max(0, self.column - _SHOWN)
        shown = shown[before : before + 2 * _SHOWN]
        marked = f"\n    {shown}\n    {' ' * (position - start - before)}^"
        advice = f"\n{advice}" if advice else ""
        self._said = (
            f"line {self.line}, column {self.column}: {problem}{marked}{advice}"
        )
        super().__init__(self._said)

    def in_file(self, path: str) -> ParseError:
        """Return the error with the name of the file that the text stands in."""
        self.args = (f"{path}, {self._said}",)
        return self


class CallError(UntraceError, TypeError):
    """A loaded function is called otherwise than the original was."""


class KeepError(UntraceError):
    """A predicate cannot be read, does not hold for the original, or for everything."""


class OptionError(UntraceError, ValueError):
    """An option has an unknown value, contradicts another, or does not suit the program."""


class InverseError(UntraceError):
    """A function cannot be inverted, or not at the values that it was asked for."""


def reason(error: Exception) -> str:
    """Say why something could not be written."""
    text = str(error)
    if not isinstance(error, LiftingError):
        text = f"{type(error).__name__}: {text}"
    return reworded(text)


def fault(error: Exception) -> str:
    """Say why something could not be written, whoever is to blame.

    An error that is not raised on purpose says nothing about the user's program.
    """
    if isinstance(error, UntraceError):
        return reason(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f", at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    said = reworded(f"{reason(error).rstrip('.')}{place}")
    return f"a fault of untrace stopped that ({said})"


def foreign_frames(trace: types.TracebackType | None) -> types.TracebackType | None:
    """Drop the frames of this package from a traceback."""
    frames: list[types.TracebackType] = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(OWN_FOLDER):
            frames.append(trace)
        trace = trace.tb_next
    kept: types.TracebackType | None = None
    for frame in reversed(frames):
        kept = types.TracebackType(
            kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno
        )
    return kept
