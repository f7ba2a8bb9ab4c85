"""What commands say, and how they end."""

from __future__ import annotations

import contextlib
import sys
import traceback
import warnings
from collections.abc import Generator
from typing import Any, NoReturn

from rich.console import Console

from untrace.errors import UntraceError, UnverifiedWarning
from untrace.folder import OWN_FOLDER
from untrace.printable import printable_lines

VERIFIED, DIFFERENT, USAGE = 0, 1, 2
INTERRUPTED = 130
"""As shells say of what SIGINT ended."""

_FILTERED = "JAX_TRACEBACK_FILTERING"

ERR = Console(stderr=True, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def explained(users: str = "") -> Generator[None, None, None]:
    """End with a message instead of an exception.

    Args:
      users: The user's expression or file, whose code runs here and may raise anything.
    """
    try:
        yield
    except UntraceError as error:
        fail(str(error))
    except Exception:  # so may any code of the user's
        if not users:
            raise
        fail_in_user_code(users)


def say(text: str, style: str | None = None) -> None:
    """Print to standard error, where what text quotes cannot steer the terminal.

    Lines are not folded: paths stay whole, and a caret under the line it points into.
    """
    ERR.print(printable_lines(text), style=style, markup=False, soft_wrap=True)


@contextlib.contextmanager
def warned() -> Generator[None, None, None]:
    """Print what cannot be verified as messages, without the line of ours that warns."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def showwarning(message: Any, category: Any, *place: Any, **line: Any) -> None:
            if issubclass(category, UnverifiedWarning):
                say(f"untrace: {message}", "yellow")
            else:
                show(message, category, *place, **line)

        warnings.showwarning = showwarning
        yield


@contextlib.contextmanager
def interruptible(otherwise: str) -> Generator[None]:
    """End with a message where the user interrupts.

    Args:
      otherwise: What is said if the interrupt does not say it.
    """
    try:
        yield
    except KeyboardInterrupt as interrupt:
        say(f"untrace: interrupted{str(interrupt) or otherwise}", "yellow")
        sys.exit(INTERRUPTED)


def fail(message: str) -> NoReturn:
    say(f"untrace: {message}", "red")
    sys.exit(USAGE)


def fail_in_user_code(what: str) -> NoReturn:
    """Show the user's own traceback, without our frames."""
    kind, error, trace = sys.exc_info()
    frames = [
        f
        for f in traceback.extract_tb(trace)
        if not f.filename.startswith((OWN_FOLDER, "<frozen"))
    ]
    text = "".join(traceback.format_list(frames))
    if kind is not None and error is not None:
        told = traceback.TracebackException(kind, error, None)
        # JAX says that it has left out its frames, as we do.
        notes = getattr(told, "__notes__", None) or []
        told.__notes__ = [note for note in notes if _FILTERED not in note]
        text += "".join(told.format_exception_only())
    say(f"untrace: an error in {what}:", "red")
    say(text.rstrip())
    sys.exit(USAGE)
