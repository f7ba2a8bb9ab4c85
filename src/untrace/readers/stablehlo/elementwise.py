"""Operations that compute each element by itself, a row each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from untrace.readers.stablehlo.calls import Call

Template = Callable[..., Any]

UNARY: dict[str, Callable[[Any], Any]] = {
    "stablehlo.abs": lambda x: x if x.dtype.kind == "u" else lax.abs(x),
    "stablehlo.ceil": lax.ceil,
    "stablehlo.count_leading_zeros": lax.clz,
    "stablehlo.floor": lax.floor,
    "stablehlo.imag": lambda x: (
        lax.imag(x) if x.dtype.kind == "c" else jnp.zeros_like(x)
    ),
    "stablehlo.is_finite": lax.is_finite,
    "stablehlo.negate": lax.neg,
    "stablehlo.not": lax.bitwise_not,
    "stablehlo.popcnt": lax.population_count,
    "stablehlo.real": lambda x: lax.real(x) if x.dtype.kind == "c" else x,
    "stablehlo.round_nearest_afz": lambda x: lax.round(x, AWAY),
    "stablehlo.round_nearest_even": lambda x: lax.round(x, EVEN),
    "stablehlo.sign": lax.sign,
    "chlo.acos": lax.acos,
    "chlo.acosh": lax.acosh,
    "chlo.asin": lax.asin,
    "chlo.asinh": lax.asinh,
    "chlo.atan": lax.atan,
    "chlo.atanh": lax.atanh,
    "chlo.bessel_i1e": lax.bessel_i1e,
    "chlo.conj": lax.conj,
    "chlo.cosh": lax.cosh,
    "chlo.digamma": lax.digamma,
    "chlo.erf": lax.erf,
    "chlo.erf_inv": lax.erf_inv,
    "chlo.erfc": lax.erfc,
    "chlo.is_inf": jnp.isinf,
    "chlo.is_neg_inf": jnp.isneginf,
    "chlo.is_pos_inf": jnp.isposinf,
    "chlo.lgamma": lax.lgamma,
    "chlo.sinh": lax.sinh,
    "chlo.square": lax.square,
    "chlo.tan": lax.tan,
}
AWAY = lax.RoundingMethod.AWAY_FROM_ZERO
EVEN = lax.RoundingMethod.TO_NEAREST_EVEN

# These may ask for an accuracy.
ACCURATE: dict[str, Callable[..., Any]] = {
    "stablehlo.cbrt": lax.cbrt,
    "stablehlo.cosine": lax.cos,
    "stablehlo.exponential": lax.exp,
    "stablehlo.exponential_minus_one": lax.expm1,
    "stablehlo.log": lax.log,
    "stablehlo.log_plus_one": lax.log1p,
    "stablehlo.logistic": lax.logistic,
    "stablehlo.rsqrt": lax.rsqrt,
    "stablehlo.sine": lax.sin,
    "stablehlo.sqrt": lax.sqrt,
    "stablehlo.tan": lax.tan,
    "stablehlo.tanh": lax.tanh,
}

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "stablehlo.add": lambda x, y: lax.bitwise_or(x, y) if _bools(x) else lax.add(x, y),
    "stablehlo.and": lax.bitwise_and,
    "stablehlo.atan2": lax.atan2,
    "stablehlo.complex": lax.complex,
    "stablehlo.divide": lax.div,
    "stablehlo.maximum": lax.max,
    "stablehlo.minimum": lax.min,
    "stablehlo.multiply": lambda x, y: _and(x, y) if _bools(x) else lax.mul(x, y),
    "stablehlo.or": lax.bitwise_or,
    "stablehlo.power": lambda x, y: _power(x, y),
    "stablehlo.remainder": lax.rem,
    "stablehlo.shift_left": lax.shift_left,
    "stablehlo.shift_right_arithmetic": lax.shift_right_arithmetic,
    "stablehlo.shift_right_logical": lax.shift_right_logical,
    "stablehlo.subtract": lax.sub,
    "stablehlo.xor": lax.bitwise_xor,
    "chlo.mulhi": lambda x, y: _mulhi(x, y),
    "chlo.next_after": lax.nextafter,
    "chlo.polygamma": lax.polygamma,
    "chlo.zeta": lax.zeta,
}
BROADCASTING: dict[str, str] = {
    f"chlo.broadcast_{name}": f"stablehlo.{name}"
    for name in (
        *("add", "and", "atan2", "complex", "divide", "maximum", "minimum", "multiply"),
        *("or", "power", "remainder", "shift_left", "shift_right_arithmetic"),
        *("shift_right_logical", "subtract", "xor"),
    )
} | {
    f"chlo.broadcast_{name}": f"chlo.{name}"
    for name in ("next_after", "polygamma", "zeta")
}

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": lax.eq,
    "NE": lax.ne,
    "GE": lax.ge,
    "GT": lax.gt,
    "LE": lax.le,
    "LT": lax.lt,
}
TOTAL_ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": lax.eq_to_p.bind,
    "NE": lambda x, y: lax.bitwise_not(lax.eq_to_p.bind(x, y)),
    "GE": lambda x, y: lax.le_to_p.bind(y, x),
    "GT": lambda x, y: lax.lt_to_p.bind(y, x),
    "LE": lax.le_to_p.bind,
    "LT": lax.lt_to_p.bind,
}


def compare(call: Call, x: Any, y: Any) -> Any:
    """State a comparison; of bools, as numbers."""
    order = call.get("compare_type")
    is_signed = x.dtype == bool or np.issubdtype(x.dtype, np.signedinteger)
    if order == "UNSIGNED" and is_signed and x.dtype != bool:
        raise call.refused("compares signed integers as unsigned ones")
    table = TOTAL_ORDERS if order == "TOTALORDER" else COMPARISONS
    return table[call["comparison_direction"]](x, y)


def convert(call: Call, x: Any) -> Any:
    """State a conversion: to bool what is not zero, of a complex number its real part."""
    if x.dtype.kind == "c" and call.dtype.kind not in "cb":
        x = lax.real(x)
    if isinstance(x, np.ndarray | np.generic):  # NumPy would compute it at once
        how = {"new_dtype": call.dtype, "weak_type": False, "sharding": None}
        return lax.convert_element_type_p.bind(x, **how)
    return lax.convert_element_type(x, call.dtype)


def reduce_precision(call: Call, x: Any) -> Any:
    """State a rounding to other numbers of bits."""
    return lax.reduce_precision(
        x, int(call["exponent_bits"]), int(call["mantissa_bits"])
    )


def _accurate(function: Callable[..., Any]) -> Template:
    def template(call: Call, x: Any) -> Any:
        accuracy = call.get("result_accuracy")
        if accuracy is None:
            return function(x)
        return function(x, accuracy=_accuracy(call, str(accuracy)))

    return template


def _accuracy(call: Call, text: str) -> Any:
    if "HIGHEST" in text:
        return lax.AccuracyMode.HIGHEST
    words = text.replace(",", " ").replace("<", " ").split()
    if "TOLERANCE" not in text:
        raise call.refused(f"has an accuracy that is not understood: {text}")
    found = {
        name: words[words.index(name) + 2] for name in _TOLERANCES if name in words
    }
    return lax.Tolerance(
        float(found.get("atol", 0)),
        float(found.get("rtol", 0)),
        int(found.get("ulps", 0)),
    )


_TOLERANCES = ("atol", "rtol", "ulps")


def _bools(x: Any) -> bool:
    return x.dtype == bool


def _and(x: Any, y: Any) -> Any:
    return lax.bitwise_and(x, y)


def _power(x: Any, y: Any) -> Any:
    """State a power; one of integers by squaring, 64 bits of exponent at most.

    As StableHLO has it, a negative exponent gives 0 but for the bases 1 and -1.
    """
    if not np.issubdtype(x.dtype, np.integer):
        return lax.pow(x, y)
    x, y = jnp.broadcast_arrays(x, y)
    result, square, left = lax.full_like(y, 1), x, y
    for _ in range(x.dtype.itemsize * 8):
        is_odd = lax.ne(lax.bitwise_and(left, lax.full_like(left, 1)), _zero(left))
        result = lax.select(is_odd, lax.mul(result, square), result)
        square = lax.mul(square, square)
        left = lax.shift_right_logical(left, lax.full_like(left, 1))
    if x.dtype.kind == "u":
        return result
    one, minus = lax.full_like(x, 1), lax.full_like(x, -1)
    is_even = lax.eq(lax.bitwise_and(y, one), _zero(y))
    of_minus = lax.select(is_even, one, minus)
    inverse = lax.select(lax.eq(x, one), one, _zero(x))
    inverse = lax.select(lax.eq(x, minus), of_minus, inverse)
    return lax.select(lax.lt(y, _zero(y)), inverse, result)


def _mulhi(x: Any, y: Any) -> Any:
    """State the upper half of a product of integers, by products of their halves."""
    x, y = jnp.broadcast_arrays(x, y)
    bits = x.dtype.itemsize * 8
    unsigned = np.dtype(f"uint{bits}")
    half, mask = (unsigned.type(n) for n in (bits // 2, (1 << bits // 2) - 1))
    a, b = (lax.convert_element_type(v, unsigned) for v in (x, y))
    (a_low, b_low), (a_high, b_high) = (a & mask, b & mask), (a >> half, b >> half)
    middle = a_high * b_low + (a_low * b_low >> half)
    other = a_low * b_high + (middle & mask)
    high = lax.convert_element_type(
        a_high * b_high + (middle >> half) + (other >> half), x.dtype
    )
    if x.dtype.kind == "u":
        return high
    high = high - lax.select(lax.lt(x, _zero(x)), y, _zero(y))
    return high - lax.select(lax.lt(y, _zero(y)), x, _zero(x))


def _zero(x: Any) -> Any:
    return lax.full_like(x, 0)


def _unary(function: Callable[[Any], Any]) -> Template:
    return lambda call, x: function(x)


def _binary(function: Callable[[Any, Any], Any]) -> Template:
    return lambda call, x, y: function(x, y)


def _broadcast(function: Callable[[Any, Any], Any]) -> Template:
    def template(call: Call, x: Any, y: Any) -> Any:
        if call.get("broadcast_dimensions") is not None:
            raise call.refused("broadcasts along dimensions that it names")
        return function(
            jnp.broadcast_to(x, call.shape), jnp.broadcast_to(y, call.shape)
        )

    return template


ELEMENTWISE: dict[str, Template] = {
    **{name: _unary(function) for name, function in UNARY.items()},
    **{name: _accurate(function) for name, function in ACCURATE.items()},
    **{name: _binary(function) for name, function in BINARY.items()},
    **{name: _broadcast(BINARY[plain]) for name, plain in BROADCASTING.items()},
    "stablehlo.clamp": lambda call, low, x, high: lax.clamp(low, x, high),
    "stablehlo.compare": compare,
    "stablehlo.convert": convert,
    "stablehlo.reduce_precision": reduce_precision,
    "stablehlo.select": lambda call, which, x, y: lax.select(which, x, y),
    "chlo.broadcast_compare": lambda call, x, y: compare(
        call, jnp.broadcast_to(x, call.shape), jnp.broadcast_to(y, call.shape)
    ),
    "chlo.broadcast_select": lambda call, which, x, y: lax.select(
        *(jnp.broadcast_to(v, call.shape) for v in (which, x, y))
    ),
}

IMPLIES_BROADCASTS = {*BINARY, "stablehlo.compare"}
"""Operations whose JAX counterparts broadcast scalars and axes of size 1 themselves."""
