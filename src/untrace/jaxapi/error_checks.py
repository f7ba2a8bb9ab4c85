"""The errors that `jax.experimental.checkify` looks for, and the numbers that they have."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Generator
from typing import Any

from jax._src import checkify as _checkify

from untrace.jaxapi.process import Shared

_SETS = (
    "user_checks",
    "nan_checks",
    "index_checks",
    "div_checks",
    "float_checks",
    "automatic_checks",
    "all_checks",
)


def error_set_names(value: frozenset[Any]) -> tuple[str, ...]:
    """Return the fewest public sets of errors that make one together; none for others."""
    if not value or not value <= _checkify.all_checks:
        return ()
    for n in range(1, len(_SETS)):
        for names in itertools.combinations(_SETS, n):
            held = [getattr(_checkify, name) for name in names]
            if frozenset[Any]().union(*held) == value:
                return names
    return ()


@contextlib.contextmanager
def own_error_codes() -> Generator[None, None, None]:
    """Let the errors in a trace have numbers of their own.

    Before jax 0.12 they go on from trace to trace, so the same program would differ.
    """
    if _next_code is None:
        yield
        return
    before = _own.next_code
    try:
        _own.next_code = itertools.count(1).__next__
        with _shared.entered():
            yield
    finally:
        _own.next_code = before


class _Own(threading.local):
    """The numbers of this thread."""

    next_code: Callable[[], int] | None = None


def _next_of_thread() -> int:
    return (_own.next_code or _next_code)()


def _set_next_code(function: Any) -> None:
    _checkify.next_code = function


_own = _Own()
_next_code: Any = getattr(_checkify, "next_code", None)
_shared = Shared[Any](
    lambda: _checkify.next_code, _set_next_code, lambda before, _: _next_of_thread
)
