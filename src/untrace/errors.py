"""Errors a caller would treat differently, all under `UntraceError`.

Every message says what happened, where in the user's program, and what to do next.
"""

from __future__ import annotations


class UntraceError(Exception):
    """Base class of every error that `untrace` raises on purpose."""


class CaptureError(UntraceError):
    """The function or jaxpr could not be read."""


class LiftingError(UntraceError):
    """An equation cannot be written as Python text."""


class VerificationError(UntraceError):
    """The generated source does not trace to the captured program."""


class SaveError(UntraceError):
    """A file could not be written; nothing half-written is left behind."""


class LoadError(UntraceError):
    """A saved file or its sidecar is missing, altered or not ours."""
