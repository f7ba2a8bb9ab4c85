"""Rules that are being written: those that make their function anew have no end."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from untrace import jaxapi
from untrace.capture.origins import function_name
from untrace.lifting.recorded.plan import Plan, Restart
from untrace.lifting.recorded.unwritable import Unwritable
from untrace.recovery.functions import innermost
from untrace.recovery.record import is_library
from untrace.syntax.importable import is_importable

# Rules of rules that are written; the proof follows them about as deep.
MAX_NESTED = 1


@contextmanager
def open_rules(function: Any, opened: list[int], plan: Plan) -> Generator[None]:
    """Note that the rules of a function are written within this context.

    Args:
      opened: The `id` of those whose rules are, and of their code.
      plan: Gets functions that are imported, since no text can hold all of their rules.

    Raises:
      Unwritable: If they are within themselves, too often to come to an end.
      Restart: If the function is one that can be imported from a library.
    """
    code = getattr(innermost(function), "__code__", function)
    is_same = opened.count(id(function)) > MAX_NESTED
    if is_same or opened.count(id(code)) > jaxapi.MAX_RULE_REPEATS:
        if is_same and _can_be_imported(function):
            plan.imported[id(function)] = function
            raise Restart
        name = function_name(function.fun)
        what = "call it at ever new fixed arguments" if is_same else "make it anew"
        raise Unwritable(f"the rules of `{name}` {what}")
    opened += [id(function), id(code)]
    try:
        yield
    finally:
        del opened[-2:]


def _can_be_imported(function: Any) -> bool:
    """Whether an installed library has a function under its name."""
    plain = innermost(function)
    return plain is not None and is_library(plain.__code__) and is_importable(function)
