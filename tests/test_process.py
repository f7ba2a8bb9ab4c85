"""Settings of the process are restored, wherever an interrupt strikes."""

from __future__ import annotations

import contextlib
import gc
import inspect
import itertools
import logging
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from tests.soak import settings
from untrace import jaxapi
from untrace.jaxapi import error_checks, evaluation, process
from untrace.recovery import watching
from untrace.recovery.kinds import Kinds

FILES = {contextlib.__file__, error_checks.__file__, evaluation.__file__} | {
    process.__file__,
    watching.__file__,
}


class Watcher:
    """Hears of everything and wants nothing."""

    error = None
    stack = (types.SimpleNamespace(frame=None, code=None, expected={}),)
    always: dict[int, Any] = {}  # noqa: RUF012
    kinds = Kinds(dict)

    def __getattr__(self, name: str) -> Any:
        return lambda *args: None


MANAGERS = {
    "recursion": jaxapi.deep_recursion,
    "collector": jaxapi.paused_collection,
    "threshold": jaxapi.rare_collection,
    "callbacks": jaxapi.quiet_callbacks,
    "checkify": jaxapi.own_error_codes,
    "warnings": jaxapi.ThreadFilter("error").entered,
    "watching": lambda: watching.watching(Watcher()),
}


@pytest.fixture(autouse=True)
def _free_locks() -> Iterator[None]:
    """Forget locks that are still held.

    Here interrupts strike at every line, also between the end of a block and its
    release, where Python looks for no real one.
    """
    yield
    for module in (process, error_checks, evaluation, watching):
        for shared in vars(module).values():
            if isinstance(shared, process.Shared):
                shared._lock = threading.RLock()


def everything() -> dict[str, Any]:
    """Return what other threads would notice."""
    loggers = [logging.getLogger("jax._src.callback").disabled]
    codes = getattr(error_checks._checkify, "next_code", None)
    return {**settings(), "loggers": loggers, "codes": codes}


def is_ours(frame: Any) -> bool:
    return frame.f_code.co_filename != contextlib.__file__


def interrupted(manager: Any, n: int) -> bool:
    """Enter and leave, interrupted at the n-th place; tell whether there was one.

    Python looks for interrupts when functions begin and after calls, not on lines such
    as `try:`. Those that other functions are called on are tried where no generator is.
    """
    count = itertools.count()

    def trace(frame: Any, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename not in FILES:
            return None
        is_generator = frame.f_code.co_flags & inspect.CO_GENERATOR
        if is_generator and event == "return":  # that is a `yield`
            return trace
        is_line = event == "line" and not is_generator and is_ours(frame)
        if (is_line or event in ("call", "return")) and next(count) == n:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    try:
        sys.settrace(trace)
        with manager():
            pass
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("name", MANAGERS)
def test_an_interrupt_anywhere_leaves_nothing_behind(name: str) -> None:
    before = everything()
    for n in itertools.count():
        was_interrupted = interrupted(MANAGERS[name], n)

        assert everything() == before, n
        if not was_interrupted:
            break
    assert n > 5


@pytest.mark.parametrize("name", ["recursion", "collector", "threshold"])
def test_the_last_out_restores_in_whatever_order(name: str) -> None:
    before = everything()
    for order in itertools.permutations(range(3)):
        entered = [MANAGERS[name]() for _ in range(3)]
        for manager in entered:
            manager.__enter__()
        for n, index in enumerate(order):
            entered[index].__exit__(None, None, None)
            assert (everything() == before) == (n == 2)


def test_what_comes_out_of_a_job_counts_as_old() -> None:
    with jaxapi.rare_collection():
        made = [[n] for n in range(5000)]

    old = {id(item) for item in gc.get_objects(generation=2)}
    assert gc.get_freeze_count() == 0
    assert all(id(item) in old for item in made)


def test_what_someone_else_has_frozen_stays_so() -> None:
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        with jaxapi.rare_collection():
            pass
        assert gc.get_freeze_count() == before
    finally:
        gc.unfreeze()


def test_garbage_of_many_jobs_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cycle:
        def __init__(self) -> None:
            self.itself = self

    monkeypatch.setattr(process, "_MANY", 20_000)
    with jaxapi.rare_collection():
        found = weakref.ref(Cycle())
    kept: list[list[int]] = []
    for _ in range(3):
        with jaxapi.rare_collection():
            kept += [[n] for n in range(8000)]
    assert found() is None


def test_what_someone_else_sets_meanwhile_stays() -> None:
    before = sys.getrecursionlimit()
    try:
        with jaxapi.deep_recursion():
            with jaxapi.deep_recursion(300_000):
                sys.setrecursionlimit(before + 321)
            assert sys.getrecursionlimit() == 200_000
        assert sys.getrecursionlimit() == before + 321
    finally:
        sys.setrecursionlimit(before)


def test_threads_that_pause_the_collector_in_turns_do_not_pause_it_for_good() -> None:

    found: list[bool] = []

    def pause() -> None:
        with jaxapi.paused_collection():
            found.append(gc.isenabled())

    with jaxapi.paused_collection():
        assert not gc.isenabled()
        thread = threading.Thread(target=pause)
        thread.start()
        thread.join()
        assert not gc.isenabled()
    assert found == [True] and gc.isenabled()


def test_only_the_thread_that_asks_refuses_warnings() -> None:
    def warn() -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn("mine", UserWarning, stacklevel=1)
        assert len(caught) == 1

    refusing = jaxapi.ThreadFilter("error")
    with refusing.entered(), refusing.entered():
        thread = threading.Thread(target=warn)
        thread.start()
        thread.join()
    with refusing.entered(), pytest.raises(UserWarning):
        warnings.warn("mine", UserWarning, stacklevel=1)
    with pytest.warns(UserWarning):
        warnings.warn("mine", UserWarning, stacklevel=1)
