"""What commands say, and how they end."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Generator
from typing import NoReturn

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from untrace.errors import UntraceError
from untrace.folder import OWN_FOLDER
from untrace.printable import printable, printable_lines

VERIFIED, DIFFERENT, USAGE = 0, 1, 2

_FILTERED = "JAX_TRACEBACK_FILTERING"

ERR = Console(stderr=True, highlight=False)


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


class Status:
    """The stage and the time since the start on standard error, if it is a terminal."""

    def __init__(self) -> None:
        columns = SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
        self._shown = Progress(
            *columns, console=ERR, transient=True, disable=not ERR.is_terminal
        )
        self._task = self._shown.add_task("tracing", total=None)

    def __enter__(self) -> Status:
        self._shown.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._shown.stop()

    def update(self, stage: str) -> None:
        """Show what is being done."""
        self._shown.update(self._task, description=printable(stage))
