"""What a function is called, and where it is defined."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from untrace.folder import OWN_FOLDER
from untrace.syntax.names import identifier

ORIGIN = "__untrace_origin__"
"""The attribute of functions that this package makes: what `origin` says of them."""


def function_name(function: Any) -> str:
    """Return the name of any callable, unwrapping partials and methods.

    A lambda is called after the variable of its module that holds it.
    """
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        name = type(function).__name__
    return _variable_of(function) or name if name == "<lambda>" else name


def _variable_of(function: Any) -> str:
    """Return the variable of a function's module that holds it; "" if there is none."""
    held = getattr(inspect.unwrap(function), "__globals__", None)
    items = list(held.items()) if type(held) is dict else []
    return next((name for name, value in items if value is function), "")


def origin(function: Any) -> str:
    """Say where a function is defined: "`name` from file.py:12"."""
    name = identifier(function_name(function), "function")
    while isinstance(function, functools.partial):
        function = function.func
    plain = inspect.unwrap(function, stop=_has_origin)
    if _has_origin(plain):
        return plain.__dict__[ORIGIN]
    code = getattr(plain, "__code__", None)
    if code is None or code.co_filename.startswith(OWN_FOLDER):
        return f"`{name}`"
    file = code.co_filename.replace("\\", "/").rpartition("/")[2]
    place = "".join(
        c if c.isascii() and (c.isalnum() or c in "._-<>") else "_" for c in file
    )
    return f"`{name}` from {place}:{code.co_firstlineno}"


def _has_origin(function: Any) -> bool:
    return ORIGIN in getattr(function, "__dict__", ())
