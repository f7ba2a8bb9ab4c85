"""The errors that `jax.experimental.checkify` looks for, and the numbers that they have."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Generator
from typing import Any

from jax._src import checkify as _checkify

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
    before = getattr(_checkify, "next_code", None)
    if before is None:
        yield
        return
    _checkify.next_code = itertools.count(1).__next__
    try:
        yield
    finally:
        _checkify.next_code = before
