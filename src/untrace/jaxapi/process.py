"""Settings of the whole process that a stage changes while it runs.

Threads and nested calls share one saved value: the first in saves it, the last out
restores it. What someone else has set meanwhile counts as the value to restore. An
interrupt may strike anywhere: entering and leaving can be repeated.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Generator
from typing import Any, Generic, Literal, TypeVar

T = TypeVar("T")
# New objects before garbage is looked for: as many as all but the largest programs make.
_MANY = 3_000_000


class Shared(Generic[T]):
    """A setting of the process that several may want to be another, for a while.

    Args:
      read: Returns the setting.
      write: Sets it.
      combine: Returns what it is to be, from the value before and what is wanted.
    """

    def __init__(
        self,
        read: Callable[[], T],
        write: Callable[[T], object],
        combine: Callable[[T, Collection[Any]], T],
    ) -> None:
        self._read, self._write, self._combine = read, write, combine
        # Garbage may be found, and a generator left, while the lock is held.
        self._lock = threading.RLock()
        self._wanted: dict[object, Any] = {}
        self._ours: list[T] = []
        """The value before, which may change, and those that were written since."""

    @contextlib.contextmanager
    def entered(self, wanted: Any = None) -> Generator[None, None, None]:
        """Change the setting until the block ends."""
        token = object()
        try:
            with self._lock:
                self._wanted[token] = wanted
                self._apply()
            yield
        finally:
            try:
                self._leave(token)
            except BaseException:  # an interrupt, which does not strike twice
                self._leave(token)
                raise

    def _leave(self, token: object) -> None:
        with self._lock:
            self._wanted.pop(token, None)
            self._apply()

    def _apply(self) -> None:
        now = self._read()
        if now not in self._ours:
            self._ours[:1] = [now]
        value = self._ours[0]
        if self._wanted:
            value = self._combine(value, tuple(self._wanted.values()))
            self._ours.append(value)
        if value != now:
            self._write(value)
        if not self._wanted:
            self._ours.clear()


_recursion_limit = Shared[int](
    sys.getrecursionlimit,
    sys.setrecursionlimit,
    lambda before, all_: max(before, *all_),
)
_collection = Shared[bool](
    gc.isenabled,
    lambda is_on: gc.enable() if is_on else gc.disable(),
    # Threads that pause it in turns would pause it for good.
    lambda before, threads: before and len(set(threads)) > 1,
)
_threshold = Shared[tuple[int, ...]](
    gc.get_threshold,
    lambda counts: gc.set_threshold(*counts),
    # No garbage is looked for where the count is zero.
    lambda before, _: (before[0] and max(before[0], _MANY), *before[1:]),
)


def deep_recursion(limit: int = 200_000) -> contextlib.AbstractContextManager[None]:
    """Raise Python's recursion limit: deep nests of sub-programs are legal."""
    return _recursion_limit.entered(limit)


def paused_collection() -> contextlib.AbstractContextManager[None]:
    """Pause the cyclic garbage collector while many small, live objects are made.

    None of them is garbage, but every full collection visits them all: without the
    pause, the cost per equation doubles between 10,000 and 100,000 equations.
    """
    return _collection.entered(threading.get_ident())


@contextlib.contextmanager
def rare_collection() -> Generator[None, None, None]:
    """Let Python look for garbage less often: most of what a job makes lives until its end.

    After a pause all that was made in it counts as new; a look at it takes half as long
    as tracing the program again. So does a look at what has come out of the job.
    """
    with _threshold.entered():
        yield
        _OLD.take()


class _Old:
    """What came out of jobs, which Python looks at with all else that has lived long."""

    def __init__(self) -> None:
        self._n_taken = 0

    def take(self) -> None:
        """Have new objects count as old ones, without a look at them.

        Garbage among them waits for a look at all objects, so there is one before it is much.
        """
        if gc.get_freeze_count():  # of somebody who knows what is to be frozen
            return
        self._n_taken += gc.get_count()[0]
        if self._n_taken > _MANY:
            self._n_taken = 0
            gc.collect()
        try:
            gc.freeze()
            gc.unfreeze()
        except BaseException:  # an interrupt
            gc.unfreeze()
            raise


_OLD = _Old()


class _Here(type):
    """The type of categories that hold the warnings of some threads only."""

    kind: type[Warning]
    threads: list[int]

    def __subclasscheck__(cls, subclass: type) -> bool:
        return threading.get_ident() in cls.threads and issubclass(subclass, cls.kind)


class ThreadFilter:
    """A filter of warnings for the threads that want it; others take no note of it.

    Args:
      action: What to do with warnings, as in `warnings.simplefilter`.
      kind: With which ones.
    """

    def __init__(
        self, action: Literal["error", "ignore"], kind: type[Warning] = Warning
    ) -> None:
        members = {"kind": kind, "threads": list[int]()}
        self._category: Any = _Here(f"{action}Here", (Warning,), members)
        self._threads: list[int] = self._category.threads
        self._action: Literal["error", "ignore"] = action
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def entered(self) -> Generator[None, None, None]:
        """Filter the warnings of this thread until the block ends."""
        thread = threading.get_ident()
        n_before = self._threads.count(thread)
        try:
            with self._lock:
                self._threads.append(thread)
                self._apply()
            yield
        finally:
            try:
                self._leave(thread, n_before)
            except BaseException:  # as above
                self._leave(thread, n_before)
                raise

    def _leave(self, thread: int, n_before: int) -> None:
        with self._lock:
            while self._threads.count(thread) > n_before:
                self._threads.remove(thread)
            self._apply()

    def _apply(self) -> None:
        """Make a new list of filters: other threads may be reading the old one."""
        ours: Any = (self._action, None, self._category, None, 0)
        others = [item for item in warnings.filters if item[2] is not self._category]
        warnings.filters = [ours, *others] if self._threads else others
        if self._threads:  # what was shown once before is a warning again
            warnings.simplefilter(self._action, self._category, append=True)
