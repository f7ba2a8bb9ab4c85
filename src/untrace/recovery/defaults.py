"""Which parameters of the user's functions have numbers as their defaults."""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping
from typing import Any

from untrace.recovery.functions import innermost

_NONE: Mapping[str, float] = types.MappingProxyType({})


def defined_as(frame: types.FrameType) -> types.FunctionType | None:
    """Return the function that a frame runs, if it is found.

    It is looked for where its qualified name says, in the module or in a class there;
    functions that are made inside of others are not found.
    """
    code = frame.f_code
    first, *rest = code.co_qualname.split(".")
    found = frame.f_globals.get(first)
    for name in rest:
        found = inspect.getattr_static(found, name, None)
    function = innermost(getattr(found, "__func__", found))
    return function if function is not None and function.__code__ is code else None


def number_defaults(function: types.FunctionType | None) -> Mapping[str, float]:
    """Return the numbers that parameters of a function hold by default, if it is known."""
    if function is None:
        return _NONE
    values = all_defaults(function)
    return {
        name: value for name, value in values.items() if type(value) in (int, float)
    }


def all_defaults(function: types.FunctionType) -> dict[str, Any]:
    """Return what the parameters of a function hold by default."""
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return {**dict(zip(names, values)), **(function.__kwdefaults__ or {})}
