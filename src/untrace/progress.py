"""How far a job is: its stages, each with how much of it is done, for who wants to know."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from contextvars import ContextVar

ProgressCallback = Callable[[str, int, int], None]
"""Takes the stage, how much of it is done, and how much there is (0: nobody knows)."""

PAUSE_SECONDS = 0.05
"""Between two calls in one stage."""


class StageCounter:
    """Counts what is done in the stage of a job, and tells it.

    Calling it begins a stage. The one before has come to its end then, which is told, too,
    if it is known how much there was.
    """

    def __init__(self, told: ProgressCallback | None) -> None:
        self._told = told
        self._stage, self._done, self._total = "", 0, 0
        self._latest = 0.0

    def __call__(self, stage: str) -> None:
        """Begin a stage."""
        self.end()
        self._stage, self._done, self._total = stage, 0, 0
        self._tell()

    def end(self) -> None:
        """End the stage."""
        if self._stage and self._done < self._total:
            self._done = self._total
            self._tell()

    def expect(self, total: int) -> None:
        """Begin to count anew: there is so much to do in this stage."""
        self._done, self._total = 0, total
        self._tell()

    def expect_more(self, number: int) -> None:
        """Note that there is more to do in this stage than was known."""
        self._total += number

    def tick(self) -> None:
        """Count one more; where nobody knows how much there is, too."""
        if self._total and self._done >= self._total:
            return
        self._done += 1
        if self._done == self._total or time.monotonic() > self._latest + PAUSE_SECONDS:
            self._tell()

    def _tell(self) -> None:
        self._latest = time.monotonic()
        if self._told is not None:
            self._told(self._stage, self._done, self._total)


_COUNTER: ContextVar[StageCounter | None] = ContextVar("counter", default=None)


@contextlib.contextmanager
def telling(told: ProgressCallback | None) -> Generator[StageCounter, None, None]:
    """Tell somebody how far it is what is done inside; nobody, if that is None."""
    counter = StageCounter(told)
    token = _COUNTER.set(None if told is None else counter)
    try:
        yield counter
        counter.end()
    finally:
        _COUNTER.reset(token)


def is_told() -> bool:
    """Whether anybody wants to know how much there is to do."""
    return _COUNTER.get() is not None


def expect(total: int) -> None:
    """Say how much there is to do in the stage that has begun."""
    counter = _COUNTER.get()
    if counter is not None:
        counter.expect(total)


def expect_more(number: int) -> None:
    """Say that there is more to do in the stage that has begun than was known."""
    counter = _COUNTER.get()
    if counter is not None:
        counter.expect_more(number)


def tick() -> None:
    """Count one more as done."""
    counter = _COUNTER.get()
    if counter is not None:
        counter.tick()
