"""Ctrl-C while a program is reduced: each is counted, and none ends it halfway.

The first ends the search, a second one all that runs, and both end with a file. They are
raised where something is tried that can be left out; in between, where the result is put
together, they are counted, and raised when the next such stretch begins.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Generator
from types import FrameType
from typing import Any

MAX_HELD = 3
"""Interrupts after which whoever sends them does not want the result any more."""


class Interrupts:
    """Counts the interrupts of a stretch of code, in the main thread.

    Where somebody else handles the signal, or in another thread, the handler stays.

    Attributes:
      count: Interrupts up to now.
    """

    def __init__(self) -> None:
        self.count = 0
        self._is_raised = False
        self._is_ours = False

    def __enter__(self) -> Interrupts:
        is_main = threading.current_thread() is threading.main_thread()
        handler: Any = signal.getsignal(signal.SIGINT) if is_main else None
        if handler is signal.default_int_handler:
            self._is_ours = True
            signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *unused: object) -> None:
        if self._is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._is_ours = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self._is_raised or self.count > MAX_HELD:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def raised(self, after: int = 0) -> Generator[None]:
        """Run what may be interrupted.

        Args:
          after: So many were heeded before; if there were more, it does not begin.

        Raises:
          KeyboardInterrupt: If so, or when one comes.
        """
        before = self.count
        if before > after:
            raise KeyboardInterrupt
        self._is_raised = True
        try:
            yield
        except KeyboardInterrupt:  # it may come without a signal
            self.count = max(self.count, before + 1)
            raise
        finally:
            self._is_raised = False
