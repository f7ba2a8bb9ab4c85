"""Where the time of a job goes: processor time by stages, and by the parts of each."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Generator, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar


@dataclass(eq=False, slots=True)
class Stage:
    """A stage of a job.

    Attributes:
      name: What is done.
      seconds: Processor time of this thread, that of its parts included.
      times: How often it was entered.
      parts: The stages inside, by name, in the order in which they came first.
    """

    name: str
    seconds: float = 0.0
    times: int = 0
    parts: dict[str, Stage] = field(default_factory=dict)

    def rows(self, depth: int = 0) -> Iterator[tuple[int, Stage]]:
        """Yield the stages inside, with their depth, each before its parts."""
        for part in self.parts.values():
            yield depth, part
            yield from part.rows(depth + 1)


_CURRENT: ContextVar[Stage | None] = ContextVar("stage", default=None)


@contextlib.contextmanager
def measured() -> Generator[Stage, None, None]:
    """Measure what is done inside; costs nothing where nobody asks.

    Yields:
      All of it, whose parts are the stages. It is complete at the end.
    """
    whole = Stage("all")
    with _entered(whole):
        yield whole


@contextlib.contextmanager
def stage(name: str) -> Generator[None, None, None]:
    """Mark a stage. One inside of a stage of its own name is a part of that."""
    stop_if_late()
    around = _CURRENT.get()
    if around is None or around.name == name:
        yield
        return
    with _entered(around.parts.setdefault(name, Stage(name))):
        yield


@contextlib.contextmanager
def _entered(entered: Stage) -> Generator[None, None, None]:
    token = _CURRENT.set(entered)
    start = time.thread_time()
    try:
        yield
    finally:
        entered.seconds += time.thread_time() - start
        entered.times += 1
        _CURRENT.reset(token)


@dataclass(frozen=True, slots=True)
class _Limit:
    """A budget of time: when it began, and when it is used up."""

    start: float
    deadline: float


MIN_GRACE_SECONDS = 1.0
"""After a budget of time, for what is being done then."""


class TimeIsOver(BaseException):
    """Nothing goes on that only makes text better; no `except Exception` stops it."""


_LIMIT: ContextVar[_Limit | None] = ContextVar("limit", default=None)
# When what is being done is stopped midway; None where it comes to its end.
_STOP: ContextVar[float | None] = ContextVar("stop", default=None)


@contextlib.contextmanager
def within(seconds: float | None) -> Generator[None, None, None]:
    """Give what is done inside a budget of time, which `is_late` asks for; None: none."""
    now = time.monotonic()
    token = _LIMIT.set(None if seconds is None else _Limit(now, now + seconds))
    try:
        yield
    finally:
        _LIMIT.reset(token)


def is_late() -> bool:
    """Whether the budget of time is used up: nothing is begun that only makes text better."""
    limit = _LIMIT.get()
    return limit is not None and time.monotonic() > limit.deadline


def seconds_left() -> float | None:
    """Return how much is left of the budget of time; None if there is none."""
    limit = _LIMIT.get()
    return None if limit is None else max(0.0, limit.deadline - time.monotonic())


@contextlib.contextmanager
def stoppable(is_so: bool = True) -> Generator[None, None, None]:
    """Let what is done inside be stopped midway, some time after the budget is used up.

    That is as long as the job took until here (most of it was tracing), or a second at
    least: instead of what is stopped something else has to be made, which takes as long.

    Raises:
      TimeIsOver: Where it asks (`stop_if_late`), and every stage and optional step does.
    """
    limit, now = _LIMIT.get(), time.monotonic()
    stop = None
    if is_so and limit is not None:
        grace = max(now - limit.start, MIN_GRACE_SECONDS)
        stop = max(limit.deadline, now) + grace
    token = _STOP.set(stop)
    try:
        yield
    finally:
        _STOP.reset(token)


def stop_if_late() -> None:
    """Stop what is being done if it is stoppable and the time for it is over.

    Raises:
      TimeIsOver: If so.
    """
    stop = _STOP.get()
    if stop is not None and time.monotonic() > stop:
        raise TimeIsOver


class Budget:
    """Time for a part of a job, within that of all of it.

    Attributes:
      was_over: Whether it was over when somebody asked.
    """

    def __init__(self, seconds: float) -> None:
        self._begin, self._seconds = time.monotonic(), seconds
        self.was_over = False

    def is_over(self, share: float = 1.0) -> bool:
        """Whether it, or a share of it, is used up."""
        is_over = time.monotonic() > self._begin + share * self._seconds
        self.was_over |= is_over or is_late()
        return is_over or is_late()


_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


def staged(name: str) -> Callable[[Callable[_Given, _Made]], Callable[_Given, _Made]]:
    """Mark a function as a stage."""

    def wrap(function: Callable[_Given, _Made]) -> Callable[_Given, _Made]:
        @functools.wraps(function)
        def run(*args: _Given.args, **kwargs: _Given.kwargs) -> _Made:
            if _CURRENT.get() is None and _STOP.get() is None:
                return function(*args, **kwargs)
            with stage(name):
                return function(*args, **kwargs)

        return run

    return wrap
