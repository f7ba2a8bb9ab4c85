"""Write the arrays that a library makes of single numbers as these numbers.

`one = jnp.array(1, jnp.int32)` beside an array of this type is the literal 1, as it is in
`count + 1`. An array without a type of its own is its number wherever `jnp` takes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from untrace import jaxapi
from untrace.lifting.recorded.calls.operators import BINARY, unreflected
from untrace.lifting.spelling.homes import public_name
from untrace.optional import gives, optional, unchanged
from untrace.recovery.record import Call
from untrace.syntax.precedence import COMPARE, LEVELS

Scalars = Mapping[int, int | float]
"""Numbers, by the identity of the arrays that were made of them."""

_MAKERS = (jnp.array, jnp.asarray)
MAX_LENGTH = 6  # characters of a number that need no name


@optional(gives(None))
def scalar_of(item: Call) -> int | float | None:
    """Return the number that a call makes an array of, if that is all it does."""
    if item.function not in _MAKERS or not item.args:
        return None
    number = item.args[0]
    if type(number) not in (int, float) or len(repr(number)) > MAX_LENGTH:
        return None
    return number if isinstance(item.result, jax.Array) else None


@optional(unchanged)
def with_numbers(item: Call, scalars: Scalars) -> Call:
    """Return a call with numbers instead of arrays, where it makes the same equations."""
    if not any(id(arg) in scalars for arg in item.args):
        return item
    if isinstance(item.function, jaxapi.Operator):
        return _operator_with_numbers(item, scalars)
    home = public_name(item.function)
    if home is None or home[0] != "jax.numpy" or item.function in _MAKERS:
        return item
    args = [scalars[id(arg)] if _is_weak(arg, scalars) else arg for arg in item.args]
    return replace(item, args=tuple(args))


def _is_weak(arg: Any, scalars: Scalars) -> bool:
    return id(arg) in scalars and jax.typeof(arg).weak_type


def _operator_with_numbers(item: Call, scalars: Scalars) -> Call:
    """Write one operand as a number; the first one of a comparison decides what it is."""
    name = unreflected(item.function.name.strip("_"))
    if name not in BINARY or len(item.args) != 2:
        return item
    first, second = item.args
    if id(second) in scalars and _decides(first, second, scalars):
        return replace(item, args=(first, scalars[id(second)]))
    is_comparison = LEVELS[BINARY[name]] == COMPARE
    if (
        is_comparison
        or id(first) not in scalars
        or not _decides(second, first, scalars)
    ):
        return item
    return replace(item, args=(scalars[id(first)], second))


def _decides(array: Any, scalar: Any, scalars: Scalars) -> bool:
    """Whether a number beside an array is converted to what the scalar is."""
    if not isinstance(array, jaxapi.Tracer) or id(array) in scalars:
        return False
    known, made = jax.typeof(array), jax.typeof(scalar)
    return known.dtype == made.dtype and (made.weak_type or not known.weak_type)
