"""Leave out what a library says about types that are the usual ones.

A library calls `jax.lax.exp`, which promotes nothing, where `jnp.exp` has nothing to
promote, and names the type that an array would be of anyway.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.lifting.recorded.calls.arguments import given_values
from untrace.recovery.functions import signature_of
from untrace.recovery.record import Call

# Functions of `jax.lax` that `jnp` has, too, where they promote and check arguments.
PROMOTING = frozenset(
    {
        "abs",
        "acos",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "cbrt",
        "ceil",
        "cos",
        "cosh",
        "exp",
        "exp2",
        "expm1",
        "floor",
        "log",
        "log1p",
        "sign",
        "sin",
        "sinh",
        "sqrt",
        "square",
        "tan",
        "tanh",
    }
)
_PAIRS = {"max": "maximum", "min": "minimum"}
# Functions whose arrays are of JAX's usual type of floats if nothing else is said.
_FLOAT_MAKERS = {
    jnp: ("empty", "eye", "ones", "zeros"),
    jax.random: ("exponential", "gumbel", "laplace", "logistic", "normal", "uniform"),
}


def type_spellings() -> Mapping[int, Callable[[Call], Call]]:
    """Return how calls of public functions are spelled, by the `id` of the function."""
    made: dict[int, Callable[[Call], Call]] = {
        id(jnp.array): _with_kept_dtype,
        id(jnp.arange): _with_usual_integers,
    }
    for name in (*PROMOTING, *_PAIRS):
        public = getattr(jnp, _PAIRS.get(name, name))
        made[id(getattr(jax.lax, name))] = functools.partial(_as_promoting, public)
    for home, names in _FLOAT_MAKERS.items():
        for name in names:
            made[id(getattr(home, name))] = _with_usual_dtype
    return made


def _as_promoting(public: Callable[..., Any], item: Call) -> Call:
    """Return a call of the function in `jnp`, which has nothing to promote."""
    given = given_values(item)
    if not _are_inexact(given):
        return item
    return replace(item, function=public, args=tuple(given), kwargs={})


def _are_inexact(values: list[Any]) -> bool:
    """Whether all values are traced arrays of one type of real numbers."""
    if not all(isinstance(value, jaxapi.Tracer) for value in values):
        return False
    avals = [jax.typeof(value) for value in values]
    is_real = jnp.issubdtype(avals[0].dtype, jnp.floating)
    return is_real and all(aval == avals[0] for aval in avals)


def _with_usual_dtype(item: Call) -> Call:
    """Leave out that an array is of the type that JAX's floats are of."""
    return _without_dtype(item, jax.dtypes.canonicalize_dtype(float))


def _with_usual_integers(item: Call) -> Call:
    """Leave out that integers are of the type that JAX's integers are of."""
    if not all(arg is None or type(arg) is int for arg in item.args[:3]):
        return item
    return _without_dtype(item, jax.dtypes.canonicalize_dtype(int))


def _with_kept_dtype(item: Call) -> Call:
    """Leave out that a copy is of the type of the array that is copied."""
    array = item.args[0] if item.args else None
    if not isinstance(array, jaxapi.Tracer) or jax.typeof(array).weak_type:
        return item
    return _without_dtype(item, array.dtype)


def _without_dtype(item: Call, usual: Any) -> Call:
    signature = signature_of(jaxapi.open_boundary(item.function))
    values = signature.bind(*item.args, **item.kwargs).arguments
    dtype = values.get("dtype")
    if dtype is None or np.dtype(dtype) != usual:
        return item
    position = list(signature.parameters).index("dtype")
    if "dtype" not in item.kwargs and len(item.args) != position + 1:
        return item
    kwargs = {name: value for name, value in item.kwargs.items() if name != "dtype"}
    return replace(item, args=item.args[:position], kwargs=kwargs)
