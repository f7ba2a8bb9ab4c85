"""Spell what a library calls as people write it: operators, methods, `x[:, None]`.

A library calls `jnp.multiply(x, y)` or `jax.lax.add(x, y)`; the operators make the same
equations, which `tests/lifting/test_respelling.py` checks on every version of JAX. What
the user's own code calls is not respelled.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.lifting.recorded.calls.arguments import given_values
from untrace.lifting.recorded.calls.usual_types import type_spellings
from untrace.optional import optional, unchanged
from untrace.recovery.record import Call

_ARITHMETIC = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "truediv",
    "true_divide": "truediv",
    "floor_divide": "floordiv",
    "mod": "mod",
    "remainder": "mod",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
}
_COMPARISONS = {
    "equal": "eq",
    "not_equal": "ne",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
}
_LOGICAL = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}
_UNARY = {"negative": "neg", "bitwise_not": "invert", "invert": "invert"}
_LAX = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "div": "truediv",
    "eq": "eq",
    "ne": "ne",
    "lt": "lt",
    "le": "le",
    "gt": "gt",
    "ge": "ge",
}
# How many arguments they may be given, the array included.
_METHODS = {
    "astype": (2,),
    "convert_element_type": (2,),
    "ravel": (1,),
    "reshape": (2,),
    "squeeze": (1, 2),
    "swapaxes": (3,),
    "transpose": (1, 2),
}
_REDUCTIONS = frozenset(
    {"all", "any", "max", "mean", "min", "prod", "std", "sum", "var"}
)
_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
_NUMBERS = (bool, int, float, complex)


@optional(unchanged)
def respelled(item: Call) -> Call:
    """Return a call as people write it, which makes the same equations."""
    function = item.function
    if isinstance(function, jaxapi.Method):
        return _method_respelled(item, function.name)
    spell = _spellings().get(id(function))
    return spell(item) if spell is not None else item


@optional(unchanged)
def plain_convolution(item: Call, in_library: bool) -> Call:
    """Return a convolution with its dimensions as letters.

    Libraries pass values that are the default, too; these are left out.
    """
    if item.function is not jax.lax.conv_general_dilated:
        return item
    signature = inspect.signature(jax.lax.conv_general_dilated)
    values = dict(signature.bind(*item.args, **item.kwargs).arguments)
    numbers = values.get("dimension_numbers")
    n = np.ndim(values["lhs"]) - 2
    for name in ("lhs_dilation", "rhs_dilation") if in_library else ():
        if values.get(name) is not None and tuple(values[name]) == (1,) * n:
            del values[name]
    if isinstance(numbers, jax.lax.ConvDimensionNumbers) and n in _SPATIAL:
        values["dimension_numbers"] = tuple(
            _letters(spec, kinds + _SPATIAL[n])
            for spec, kinds in zip(numbers, ("NC", "OI", "NC"))
        )
    names = ("lhs", "rhs", "window_strides", "padding")
    args = tuple([values.pop(name) for name in names])
    return replace(item, args=args, kwargs=values)


def _letters(spec: Any, letters: str) -> str:
    """Write where each dimension stands, as `NHWC`."""
    return "".join(letter for _, letter in sorted(zip(spec, letters)))


@functools.cache
def _spellings() -> Mapping[int, Callable[[Call], Call]]:
    """Return how calls of public functions are spelled, by the `id` of the function."""
    made: dict[int, Callable[[Call], Call]] = {}
    for names, home, is_fitting in (
        (_ARITHMETIC, jnp, _are_operands),
        (_COMPARISONS, jnp, _are_compared),
        (_LOGICAL, jnp, _are_bool),
        ({"matmul": "matmul"}, jnp, _are_traced),
        ({"dot": "matmul"}, jnp, _are_matrices),
        (_LAX, jax.lax, _are_alike),
        (_UNARY, jnp, _is_traced),
        ({"neg": "neg"}, jax.lax, _is_traced),
        ({"logical_not": "invert"}, jnp, _are_bool),
    ):
        for name, sign in names.items():
            made[id(getattr(home, name))] = functools.partial(
                _as_operator, jaxapi.Operator(f"__{sign}__"), is_fitting
            )
    for home in (jnp, jax.lax):
        for name, counts in _METHODS.items():
            if hasattr(home, name):
                method = "astype" if name == "convert_element_type" else name
                made[id(getattr(home, name))] = functools.partial(
                    _as_method, method, counts
                )
        made[id(home.expand_dims)] = _as_index
    for name in _REDUCTIONS:
        made[id(getattr(jnp, name))] = _with_one_axis
    made.update(type_spellings())
    return made


# ---- operators ---------------------------------------------------------------------


def _as_operator(
    made: jaxapi.Operator, is_fitting: Callable[..., bool], item: Call
) -> Call:
    given = given_values(item)
    if not is_fitting(*given):
        return item
    return replace(item, function=made, args=tuple(given), kwargs={})


def _is_traced(*values: Any) -> bool:
    return len(values) == 1 and isinstance(values[0], jaxapi.Tracer)


def _are_operands(*values: Any) -> bool:
    """Whether an operator between two values is that of a traced array."""
    return (
        len(values) == 2
        and any(isinstance(value, jaxapi.Tracer) for value in values)
        and all(type(v) in _NUMBERS or isinstance(v, jax.Array) for v in values)
    )


def _are_compared(*values: Any) -> bool:
    """Whether the first decides: a reflected comparison is another primitive."""
    return _are_operands(*values) and isinstance(values[0], jaxapi.Tracer)


def _are_bool(*values: Any) -> bool:
    return all(isinstance(v, jaxapi.Tracer) and v.dtype == bool for v in values)


def _are_traced(*values: Any) -> bool:
    return len(values) == 2 and all(isinstance(v, jaxapi.Tracer) for v in values)


def _are_matrices(*values: Any) -> bool:
    """Whether `jnp.dot` and `@` mean the same: the second has no batch axes."""
    return _are_traced(*values) and np.ndim(values[0]) > 0 < np.ndim(values[1]) < 3


def _are_alike(*values: Any) -> bool:
    """Whether two arrays need no promotion, and `/` would not convert them."""
    if not _are_traced(*values):
        return False
    first, second = (jax.typeof(value) for value in values)
    return first == second and jnp.issubdtype(first.dtype, jnp.inexact)


# ---- methods and indices -----------------------------------------------------------


def _as_method(name: str, counts: tuple[int, ...], item: Call) -> Call:
    """Return a call of the method that a function is, too."""
    given = given_values(item)
    if len(given) not in counts or not isinstance(given[0], jaxapi.Tracer):
        return item
    if len(given) == 1 and name == "transpose":
        return replace(item, function=jaxapi.Property("T"), args=tuple(given))
    method = jaxapi.Method(name)
    made = replace(item, function=method, args=tuple(given), kwargs={})
    return _method_respelled(made, name)


def _method_respelled(item: Call, name: str) -> Call:
    """Give lengths and axes one by one: `x.reshape(1, -1)`, `x.mean(0)`."""
    array, *args = item.args
    if name in _REDUCTIONS:
        return _with_one_axis(item)
    if len(args) != 1 or type(args[0]) not in (tuple, list, np.ndarray):
        return item
    if name in ("reshape", "transpose") and len(args[0]):
        lengths = [int(n) if isinstance(n, np.integer) else n for n in args[0]]
        return replace(item, args=(array, *lengths))
    return _with_one_axis(item) if name == "squeeze" else item


def _with_one_axis(item: Call) -> Call:
    """Give an axis instead of a sequence that only holds this axis."""
    args = [arg if i != 1 else _one(arg) for i, arg in enumerate(item.args)]
    kwargs = {k: _one(v) if k == "axis" else v for k, v in item.kwargs.items()}
    return replace(item, args=tuple(args), kwargs=kwargs)


def _one(axes: Any) -> Any:
    is_one = type(axes) in (tuple, list) and len(axes) == 1
    return axes[0] if is_one else axes


def _as_index(item: Call) -> Call:
    """Return the index that adds axes: `x[..., None]`."""
    given = given_values(item)
    if len(given) != 2 or not isinstance(given[0], jaxapi.Tracer):
        return item
    array, axes = given
    axes = [axes] if isinstance(axes, (int, np.integer)) else list(axes)
    n = np.ndim(array) + len(axes)
    new = {int(axis) % n for axis in axes}
    full = [None if axis in new else slice(None) for axis in range(n)]
    from_start = full[: max(new, default=0) + 1]
    from_end = [Ellipsis, *full[min(new, default=0) :]]
    parts = from_start if len(from_start) <= len(from_end) else from_end
    index = parts[0] if len(parts) == 1 else tuple(parts)
    getitem = jaxapi.Operator("__getitem__")
    return replace(item, function=getitem, args=(array, index), kwargs={})
