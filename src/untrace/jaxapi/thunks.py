"""Jaxprs that JAX traces when they are needed: `linear_call` keeps its transpose so."""

# This is a private hook of JAX; `tests/verification` needs it on every version.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import inspect
from typing import Any

from jax._src.interpreters import partial_eval as _pe

from untrace.jaxapi.wrappers import inner_code
from untrace.objects import closed_over


def thunk_result(function: Any) -> Any:
    """Return the jaxpr and the constants that a function without arguments traces.

    It traces them once. None for other functions, and if they cannot be traced.
    """
    if function.__code__ is not _MEMOIZED:
        return None
    code = getattr(closed_over(function)["fn"], "__code__", None)
    if code is None or code.co_argcount or code.co_flags & inspect.CO_VARARGS:
        return None
    try:
        return function()
    except Exception:  # the user's function fails in its own ways
        return None


_MEMOIZED = inner_code(_pe._memoize, "memoized")
