"""Arithmetic, comparisons and activations."""

from __future__ import annotations

import operator
from typing import Any

import jax
import jax.numpy as jnp

from untrace.readers.torch.lowerings.table import LOWERINGS, lowered_function, lowering

_SAME_NAME = """
abs ceil floor trunc round sign sin cos tan sinh cosh tanh exp exp2 expm1 log log2 log10
log1p sqrt square isnan isinf isfinite reciprocal logical_not logical_and logical_or
logical_xor maximum minimum fmod hypot conj angle real imag signbit isposinf isneginf
copysign heaviside float_power logaddexp logaddexp2 nextafter deg2rad rad2deg gcd lcm
"""
_OPERATORS = "floordiv mod pow matmul and or xor eq ne lt le gt ge lshift rshift"

LOWERINGS.update({name: getattr(jnp, name) for name in _SAME_NAME.split()})
LOWERINGS.update(
    {f"__{name}__": getattr(operator, f"__{name}__") for name in _OPERATORS.split()}
)
LOWERINGS.update(
    {
        "absolute": jnp.abs,
        "asin": jnp.arcsin,
        "acos": jnp.arccos,
        "atan": jnp.arctan,
        "asinh": jnp.arcsinh,
        "acosh": jnp.arccosh,
        "atanh": jnp.arctanh,
        "atan2": jnp.arctan2,
        "arctan2": jnp.arctan2,
        "rsqrt": jax.lax.rsqrt,
        "erf": jax.scipy.special.erf,
        "erfc": jax.scipy.special.erfc,
        "erfinv": jax.scipy.special.erfinv,
        "lgamma": jax.scipy.special.gammaln,
        "digamma": jax.scipy.special.digamma,
        "sigmoid": jax.nn.sigmoid,
        "softsign": jax.nn.soft_sign,
        "logsigmoid": jax.nn.log_sigmoid,
        "log_sigmoid": jax.nn.log_sigmoid,
        "neg": operator.neg,
        "__neg__": operator.neg,
        "__invert__": operator.invert,
        "bitwise_not": operator.invert,
        "pow": operator.pow,
        "remainder": operator.mod,
        "floor_divide": operator.floordiv,
        "eq": operator.eq,
        "ne": operator.ne,
        "gt": operator.gt,
        "ge": operator.ge,
        "lt": operator.lt,
        "le": operator.le,
        "greater": operator.gt,
        "less": operator.lt,
        "bitwise_and": operator.and_,
        "bitwise_or": operator.or_,
        "bitwise_xor": operator.xor,
    }
)


def _reflected(name: str) -> None:
    function = getattr(operator, name)
    LOWERINGS[f"__r{name[2:]}"] = lambda x, other: function(other, x)


for _name in ("sub", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"):
    _reflected(f"__{_name}__")
LOWERINGS["__rdiv__"] = LOWERINGS["__rtruediv__"]


def _is_neutral(other: Any, neutral: int, input: Any) -> bool:
    """Whether an operand is a number that changes nothing, neither values nor types.

    These are the identities that are left out: `x + 0`, `x - 0`, `x * 1` and `x / 1`.
    """
    if (
        type(other) not in (int, float)
        or other != neutral
        or not hasattr(input, "dtype")
    ):
        return False
    is_float = jnp.issubdtype(input.dtype, jnp.inexact)
    return is_float or (type(other) is int and input.dtype != jnp.bool_)


@lowering("mul", "multiply", "__mul__", "__rmul__")
def mul(input: Any, other: Any) -> Any:
    return input if _is_neutral(other, 1, input) else input * other


@lowering("__add__", "__radd__")
def plus(input: Any, other: Any) -> Any:
    return input if _is_neutral(other, 0, input) else input + other


@lowering()
def add(input: Any, other: Any, alpha: Any = 1) -> Any:
    if alpha == 1:
        return plus(input, other)
    return input + alpha * other


@lowering("sub", "subtract", "__sub__")
def sub(input: Any, other: Any, alpha: Any = 1) -> Any:
    if _is_neutral(other, 0, input):
        return input
    return input - other if alpha == 1 else input - alpha * other


@lowering("rsub")
def rsub(input: Any, other: Any, alpha: Any = 1) -> Any:
    return other - input if alpha == 1 else other - alpha * input


@lowering("div", "divide", "true_divide", "__truediv__", "__div__")
def div(input: Any, other: Any, rounding_mode: str | None = None) -> Any:
    is_float = jnp.issubdtype(jnp.result_type(input), jnp.inexact)
    if is_float and _is_neutral(other, 1, input):
        return input
    if rounding_mode == "floor":
        return input // other
    if rounding_mode == "trunc":
        return jnp.trunc(input / other).astype(jnp.result_type(input, other))
    return input / other


@lowered_function()
def addcmul(input: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    product = tensor1 * tensor2
    return input + product if value == 1 else input + value * product


@lowered_function()
def addcdiv(input: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    ratio = tensor1 / tensor2
    return input + ratio if value == 1 else input + value * ratio


@lowered_function()
def lerp(input: Any, end: Any, weight: Any) -> Any:
    return input + weight * (end - input)


@lowering("clamp", "clip")
def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    return jnp.clip(input, min, max)


@lowering()
def clamp_min(input: Any, min: Any) -> Any:
    return jnp.maximum(input, min)


@lowering()
def clamp_max(input: Any, max: Any) -> Any:
    return jnp.minimum(input, max)


@lowering()
def gelu(input: Any, approximate: str = "none") -> Any:
    return jax.nn.gelu(input, approximate=approximate == "tanh")


@lowering()
def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    return jax.nn.leaky_relu(input, negative_slope)


@lowering()
def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    return jax.nn.elu(input, alpha)


@lowering()
def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    return jax.nn.celu(input, alpha)


@lowering()
def hardtanh(
    input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Any:
    if min_val == 0:
        return _clipped_relu(input, max_val)
    return jnp.clip(input, min_val, max_val)


def _clipped_relu(input: Any, max_val: float) -> Any:
    """The gradient at 0, where layers of zeros are, is 0 in torch; of a `clip` it is 1/2."""
    return jnp.minimum(jax.nn.relu(input), max_val)


@lowering("hardswish")
def hardswish(input: Any, inplace: bool = False) -> Any:
    return jax.nn.hard_swish(input)


@lowering("hardsigmoid")
def hardsigmoid(input: Any, inplace: bool = False) -> Any:
    return jax.nn.hard_sigmoid(input)


@lowering()
def glu(input: Any, dim: int = -1) -> Any:
    return jax.nn.glu(input, axis=dim)


@lowered_function()
def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    if beta == 1.0:
        return jax.nn.softplus(input)
    return jax.nn.softplus(beta * input) / beta


@lowered_function("prelu")
def prelu(input: Any, weight: Any) -> Any:
    if weight.size > 1:
        weight = weight.reshape((-1,) + (1,) * (input.ndim - 2))
    return jnp.where(input > 0, input, weight * input)


@lowering()
def nan_to_num(
    input: Any, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    return jnp.nan_to_num(input, nan=nan or 0.0, posinf=posinf, neginf=neginf)


@lowering()
def relu(input: Any, inplace: bool = False) -> Any:
    return jax.nn.relu(input)


@lowering()
def relu6(input: Any, inplace: bool = False) -> Any:
    return _clipped_relu(input, 6)


@lowering()
def silu(input: Any, inplace: bool = False) -> Any:
    return jax.nn.silu(input)


@lowering()
def selu(input: Any, inplace: bool = False) -> Any:
    return jax.nn.selu(input)


@lowering()
def mish(input: Any, inplace: bool = False) -> Any:
    return jax.nn.mish(input)


@lowered_function()
def frac(input: Any) -> Any:
    return input - jnp.trunc(input)
