"""Inverses of functions that work on each element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np

from untrace.interpreters.inverse_rules.table import (
    ELEMENTWISE,
    Inverse,
    binary,
    flat,
    lost,
    unary,
)
from untrace.interpreters.inverting.lazy import as_number, is_plain_scalar

LN2 = math.log(2.0)
HALF_LOG_PI = 0.5 * math.log(math.pi)


def _kind(eqn: Any, i: int = 0) -> str:
    dtype = eqn.invars[i].aval.dtype
    return "float" if jnp.issubdtype(dtype, jnp.inexact) else "whole"


def is_complex(eqn: Any) -> bool:
    """Return whether an equation is one of complex numbers, where functions repeat."""
    return bool(jnp.issubdtype(eqn.invars[0].aval.dtype, jnp.complexfloating))


# ---- exponentials and logarithms ---------------------------------------------------

unary("exp", jnp.log, slope=lambda x, y: -jnp.real(x), principal=is_complex)
unary(
    "exp2",
    jnp.log2,
    slope=lambda x, y: -LN2 * jnp.real(x) - math.log(LN2),
    principal=is_complex,
)
unary("log", jnp.exp, slope=lambda x, y: jnp.real(y), on="x > 0")
unary("expm1", jnp.log1p, slope=lambda x, y: -jnp.real(x), principal=is_complex)
unary(
    "log2", jnp.exp2, slope=lambda x, y: LN2 * jnp.real(y) + math.log(LN2), on="x > 0"
)
unary("log1p", jnp.expm1, slope=lambda x, y: jnp.real(y), on="x > -1")
unary(
    "logistic",
    jax.scipy.special.logit,
    slope=lambda x, y: jax.nn.softplus(x) + jax.nn.softplus(-x),
    principal=is_complex,
)
unary(
    "erf",
    jax.scipy.special.erfinv,
    slope=lambda x, y: x * x + HALF_LOG_PI - LN2,
)
unary(
    "erf_inv",
    jax.scipy.special.erf,
    slope=lambda x, y: LN2 - HALF_LOG_PI - y * y,
    on="|x| < 1",
)
unary("erfc", lambda y: jax.scipy.special.erfinv(1 - y))


def _log_cosh(x: Any, times: int) -> Any:
    """A multiple of log cosh, without overflow."""
    return times * (x + jax.nn.softplus(-2 * x) - LN2)


# ---- trigonometric and hyperbolic functions ----------------------------------------

unary("tanh", jnp.arctanh, slope=lambda x, y: _log_cosh(x, 2), principal=is_complex)
unary("atanh", jnp.tanh, slope=lambda x, y: _log_cosh(y, -2), on="|x| < 1")
unary("sinh", jnp.arcsinh, slope=lambda x, y: _log_cosh(x, -1), principal=is_complex)
unary("asinh", jnp.sinh, slope=lambda x, y: _log_cosh(y, 1))
unary("cosh", jnp.arccosh, on="x >= 0", principal=True)
unary("acosh", jnp.cosh, on="x >= 1")
unary("sin", jnp.arcsin, on="-pi/2 <= x <= pi/2", principal=True)
unary("cos", jnp.arccos, on="0 <= x <= pi", principal=True)
unary("tan", jnp.arctan, on="-pi/2 < x < pi/2", principal=True)
unary("asin", jnp.sin, on="|x| <= 1")
unary("acos", jnp.cos, on="|x| <= 1")
unary("atan", jnp.tan)

# ---- powers ------------------------------------------------------------------------


def _integer_root(value: Any, *, y: int) -> Any:
    if y == 1:
        return value
    if y == -1:
        return 1 / value
    if y == 3 and not jnp.iscomplexobj(value):
        return jnp.cbrt(value)
    if jnp.iscomplexobj(value):
        return value ** (1 / y)
    root = jnp.abs(value) ** (1 / y)
    return root if y % 2 == 0 else jnp.sign(value) * root


def _power_refusal(eqn: Any) -> str | None:
    power, dtype = eqn.params["y"], eqn.invars[0].aval.dtype
    if not power:
        return "information lost: every number to the power 0 is 1"
    if not jnp.issubdtype(dtype, jnp.inexact) and power != 1:
        return "powers of whole numbers overflow"
    return None


def _has_several_roots(eqn: Any) -> bool:
    power = eqn.params["y"]
    return power % 2 == 0 or (is_complex(eqn) and abs(power) != 1)


unary(
    "integer_pow",
    _integer_root,
    on="x >= 0, for even powers",
    principal=_has_several_roots,
    when=_power_refusal,
)
unary("square", jnp.sqrt, on="x >= 0", principal=True)
unary("one_minus_square", lambda y: jnp.sqrt(1 - y), on="x >= 0", principal=True)
unary("sqrt", jnp.square, on="x >= 0")
unary("rsqrt", lambda y: 1 / jnp.square(y), on="x > 0")
unary("cbrt", lambda y: y**3)
binary(
    "pow",
    Inverse(lambda y, power: y ** (1 / power), on="x > 0"),
    Inverse(lambda y, base: jnp.log(y) / jnp.log(base), on="base > 0, not 1"),
)

# ---- arithmetic --------------------------------------------------------------------


def _with_number(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Let a function take a constant as a number, where the type of its result is the same.

    The same operation then reads as a person would write it: `y / 3.0`.
    """

    def computed(y: Any, other: Any) -> Any:
        return compute(y, as_number(other) if is_plain_scalar(y, other) else other)

    return computed


def _without(quotient: Any, other: Any) -> Any:
    """Divide; whole numbers without a rest."""
    if jnp.issubdtype(jnp.result_type(quotient), jnp.inexact):
        return quotient / other
    return quotient // other


def _log_abs(factor: Any) -> Any:
    """Return log |factor|, as a number if it is one."""
    number = as_number(factor)
    if isinstance(number, (int, float)) and number:
        return math.log(abs(number))
    return jnp.log(jnp.abs(factor))


def _minus_log(x: Any, y: Any, factor: Any) -> Any:
    return -_log_abs(factor)


def _no_whole_division(eqn: Any) -> str | None:
    if _kind(eqn) == "whole":
        return "information lost: the division of whole numbers drops the rest"
    return None


_FACTOR = Inverse(
    _with_number(_without),
    slope=_minus_log,
    on="the other factor is not zero; whole numbers do not overflow",
    avoids_zero=True,
)

unary("neg", jnp.negative, slope=flat)
unary("copy", lambda y: y, slope=flat)
unary("conj", jnp.conj, slope=flat)
unary("not", jnp.invert, slope=flat)
for _name in ("add", "add_any"):
    binary(
        _name,
        Inverse(_with_number(lambda y, b: y - b), slope=flat),
        Inverse(_with_number(lambda y, a: y - a), slope=flat),
    )
binary(
    "sub",
    Inverse(_with_number(lambda y, b: y + b), slope=flat),
    Inverse(_with_number(lambda y, a: a - y), slope=flat),
)
binary("mul", _FACTOR, _FACTOR)
binary(
    "div",
    Inverse(
        _with_number(lambda y, b: y * b),
        slope=lambda x, y, b: _log_abs(b),
        when=_no_whole_division,
    ),
    Inverse(
        _with_number(lambda y, a: a / y),
        slope=lambda x, y, a: 2 * jnp.log(jnp.abs(x)) - _log_abs(a),
        on="the dividend is not zero",
        avoids_zero=True,
        when=_no_whole_division,
    ),
)
binary(
    "xor",
    Inverse(lambda y, b: y ^ b, slope=flat),
    Inverse(lambda y, a: y ^ a, slope=flat),
)
binary(
    "atan2",
    Inverse(lambda y, b: jnp.tan(y) * b, on="the second operand is not zero"),
    Inverse(lambda y, a: a / jnp.tan(y), on="the first operand is not zero"),
)

# ---- types -------------------------------------------------------------------------


def _conversion_refusal(eqn: Any) -> str | None:
    old, new = eqn.invars[0].aval.dtype, eqn.params["new_dtype"]
    if not _keeps(old, new):
        return (
            f"information lost: {np.dtype(new).name} does not hold every {old.name}"
            " exactly"
        )
    return None


def _keeps(old: Any, new: Any) -> bool:
    """Return whether a dtype holds all values of another."""
    if old == new:
        return True
    if jnp.issubdtype(old, jnp.integer) and jnp.issubdtype(new, jnp.integer):
        return jnp.iinfo(new).bits >= jnp.iinfo(old).bits
    if not jnp.issubdtype(old, jnp.inexact) or not jnp.issubdtype(new, jnp.inexact):
        return bool(np.can_cast(old, new))
    is_complex = [jnp.issubdtype(each, jnp.complexfloating) for each in (old, new)]
    one, other = jnp.finfo(old), jnp.finfo(new)
    return (
        is_complex[0] <= is_complex[1]
        and one.nmant <= other.nmant
        and one.nexp <= other.nexp
    )


def _back(y: Any) -> Any:
    return y.real if jnp.iscomplexobj(y) else y


unary("convert_element_type", _back, slope=flat, when=_conversion_refusal)
unary(
    "reduce_precision",
    lambda y: y,
    slope=flat,
    when=lambda eqn: (
        None
        if eqn.params["mantissa_bits"] >= jnp.finfo(eqn.invars[0].aval.dtype).nmant
        and eqn.params["exponent_bits"] >= jnp.finfo(eqn.invars[0].aval.dtype).nexp
        else "information lost: digits are cut off"
    ),
)

# ---- what has no inverse -----------------------------------------------------------

unary("abs", lambda y: y, on="x >= 0", principal=True)
lost("sign", "information lost: only the sign is left")
lost("floor ceil round", "information lost: fractions are rounded away")
for _name, _on in (("max", "it is the greater one"), ("min", "it is the smaller one")):
    _shown = Inverse(lambda y, bound: y, flat, _on, is_principal=True, is_cut=True)
    binary(_name, _shown, _shown)
ELEMENTWISE["clamp"] = (
    None,
    Inverse(
        lambda y, low, high: y,
        flat,
        "it lies in between",
        is_principal=True,
        is_cut=True,
    ),
    None,
)
lost("rem", "not injective: numbers that differ by the divisor have the same rest")
lost("and or", "not injective: bits are hidden by the other operand")
lost(
    "shift_left shift_right_logical shift_right_arithmetic",
    "information lost: bits are shifted out",
)
lost("polynomial", "not injective: polynomials have several roots")
lost("population_count clz", "information lost: only a number of bits is left")
lost("mulhi", "information lost: the low bits of the product")
lost("nextafter", "not injective in the direction, and rounding in the other operand")
lost("is_finite eq ne lt le gt ge eq_to lt_to le_to", "information lost: a truth value")
lost(
    "lgamma digamma polygamma bessel_i0e bessel_i1e",
    "not injective on the numbers where it is defined",
)
lost(
    "igamma igammac igamma_grad_a regularized_incomplete_beta zeta",
    "no formula for its inverse",
)
