"""The limits of floats, as people write them: `jnp.finfo(jnp.float32).min`."""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from untrace.lifting.spelling.base import Imports
from untrace.lifting.spelling.dtypes import spell_dtype

_LIMITS = ("min", "max", "eps", "tiny")
_OF_PYTHON = ("float32", "float64", "bfloat16")
"""Types whose limits Python floats may be: the first one counts."""


def spell_limit(value: Any, imports: Imports) -> str:
    """Write a float as a limit of a type; "" if it is none, to the last bit.

    >>> from untrace.lifting.spelling.base import PlainImports
    >>> spell_limit(np.finfo(np.float32).min, PlainImports())
    'jnp.finfo(jnp.float32).min'
    >>> spell_limit(float(np.finfo(np.float32).max), PlainImports())
    'float(jnp.finfo(jnp.float32).max)'
    >>> spell_limit(0.5, PlainImports())
    ''
    """
    if type(value) is float:
        found = _of_python().get(value)
        return f"float({_spelled(*found, imports)})" if found is not None else ""
    limit = limit_of(value)
    return _spelled(*limit, imports) if limit is not None else ""


def limit_of(value: Any) -> tuple[np.dtype[Any], str] | None:
    """Return the type that a number of NumPy is a limit of, and which one."""
    if not isinstance(value, np.generic) or not jnp.issubdtype(
        value.dtype, jnp.floating
    ):
        return None
    for name, limit in _limits(value.dtype):
        if type(limit) is type(value) and limit == value:
            return value.dtype, name
    return None


@functools.cache
def _limits(dtype: np.dtype[Any]) -> tuple[tuple[str, Any], ...]:
    limits = jnp.finfo(dtype)
    return tuple([(name, getattr(limits, name)) for name in _LIMITS])


@functools.cache
def _of_python() -> dict[float, tuple[np.dtype[Any], str]]:
    """The limits as Python floats, but for those that stand for themselves: 0.0078125."""
    found: dict[float, tuple[np.dtype[Any], str]] = {}
    for dtype in map(jnp.dtype, _OF_PYTHON):
        for name, limit in _limits(dtype):
            if dtype.name != "bfloat16" or name in ("min", "max"):
                found.setdefault(float(limit), (dtype, name))
    return found


def _spelled(dtype: np.dtype[Any], name: str, imports: Imports) -> str:
    return f"{imports.module('jax.numpy')}.finfo({spell_dtype(dtype, imports)}).{name}"
