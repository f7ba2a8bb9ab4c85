"""Rational functions of one value, as the coefficients of two polynomials.

A coefficient is a number that is there while the program is planned, or a `Lazy` of what
is known. Numbers are computed with at once, so that degrees are known when an equation is
judged: a difference in which the value cancels has none. Nothing is cancelled but what is
visibly the same: a numerator and a denominator with the same coefficients.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from itertools import zip_longest
from typing import Any, NamedTuple

import jax.numpy as jnp

from untrace.interpreters.inverting.lazy import Lazy, as_number

Coefficient = float | Lazy
Polynomial = tuple[Coefficient, ...]
"""From degree 0 on; the last coefficient is not the number 0."""


class Rational(NamedTuple):
    """A quotient of two polynomials of one value."""

    top: Polynomial
    bottom: Polynomial

    @property
    def degree(self) -> int:
        """The number of values, real or not, at which a result is taken."""
        return max(len(self.top), len(self.bottom)) - 1


ONE: Polynomial = (1.0,)
VARIABLE = Rational((0.0, 1.0), ONE)
"""The value itself."""


def constant(lazy: Lazy) -> Rational:
    """Return what is known, as a function that does not depend on the value."""
    return Rational(_trimmed((_coefficient(lazy),)), ONE)


def _coefficient(lazy: Lazy) -> Coefficient:
    values = lazy.concrete()
    if values is None or values.shape:
        return lazy
    number = as_number(values[()])
    return float(number) if isinstance(number, (int, float)) else lazy


# ---- arithmetic --------------------------------------------------------------------


def plus(one: Rational, other: Rational) -> Rational:
    """Return the sum of two functions."""
    if _is_same(one.bottom, other.bottom):
        return Rational(_added(one.top, other.top), one.bottom)
    top = _added(_multiplied(one.top, other.bottom), _multiplied(other.top, one.bottom))
    return Rational(top, _multiplied(one.bottom, other.bottom))


def negative(one: Rational) -> Rational:
    """Return a function with the other sign."""
    return Rational(_multiplied((-1.0,), one.top), one.bottom)


def minus(one: Rational, other: Rational) -> Rational:
    """Return the difference of two functions."""
    return plus(one, negative(other))


def times(one: Rational, other: Rational) -> Rational:
    """Return the product of two functions."""
    if _is_same(one.top, other.bottom):
        return Rational(other.top, one.bottom)
    if _is_same(one.bottom, other.top):
        return Rational(one.top, other.bottom)
    return Rational(
        _multiplied(one.top, other.top), _multiplied(one.bottom, other.bottom)
    )


def over(one: Rational, other: Rational) -> Rational:
    """Return the quotient of two functions."""
    return times(one, Rational(other.bottom, other.top))


def power(one: Rational, exponent: int) -> Rational:
    """Return a function to the power of a whole number, also a negative one."""
    if exponent < 0:
        return power(Rational(one.bottom, one.top), -exponent)
    made = Rational(ONE, ONE)
    for _ in range(exponent):
        made = Rational(
            _multiplied(made.top, one.top), _multiplied(made.bottom, one.bottom)
        )
    return made


def _added(one: Polynomial, other: Polynomial) -> Polynomial:
    return _trimmed(
        tuple([_sum(a, b) for a, b in zip_longest(one, other, fillvalue=0.0)])
    )


def _multiplied(one: Polynomial, other: Polynomial) -> Polynomial:
    if not one or not other:
        return ()
    made: list[Coefficient] = [0.0] * (len(one) + len(other) - 1)
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            made[i + j] = _sum(made[i + j], product(a, b))
    return _trimmed(tuple(made))


def _trimmed(polynomial: Polynomial) -> Polynomial:
    n = len(polynomial)
    while n and is_number(polynomial[n - 1], 0):
        n -= 1
    return polynomial[:n]


def _is_same(one: Polynomial, other: Polynomial) -> bool:
    return bool(one) and len(one) == len(other) and all(map(_is_equal, one, other))


def _is_equal(one: Coefficient, other: Coefficient) -> bool:
    return one is other or (isinstance(one, float) and one == other)


# ---- coefficients ------------------------------------------------------------------


def is_number(value: Any, number: float) -> bool:
    """Return whether a coefficient is this number of Python, and no array."""
    return isinstance(value, (int, float)) and value == number


def _sum(one: Coefficient, other: Coefficient) -> Coefficient:
    if is_number(one, 0):
        return other
    return one if is_number(other, 0) else _combined(operator.add, one, other)


def difference(one: Coefficient, other: Coefficient) -> Coefficient:
    """Return the difference of two coefficients; 0 if they are the same."""
    if _is_equal(one, other):
        return 0.0
    if is_number(one, 0):
        return product(-1.0, other)
    return one if is_number(other, 0) else _combined(operator.sub, one, other)


def product(one: Coefficient, other: Coefficient) -> Coefficient:
    """Return the product of two coefficients."""
    if is_number(one, 0) or is_number(other, 0):
        return 0.0
    if is_number(one, 1):
        return other
    if is_number(other, 1):
        return one
    if is_number(one, -1) and isinstance(other, Lazy):
        return Lazy(operator.neg, [other])
    return _combined(operator.mul, one, other)


def _combined(
    compute: Callable[[Any, Any], Any], one: Coefficient, other: Coefficient
) -> Coefficient:
    if isinstance(one, Lazy):
        if isinstance(other, Lazy):
            return Lazy(compute, [one, other])
        return Lazy(lambda value: compute(value, other), [one])
    if isinstance(other, Lazy):
        return Lazy(lambda value: compute(one, value), [other])
    return float(compute(one, other))


# ---- values ------------------------------------------------------------------------


def line(slope: Any, value: Any, offset: Any) -> Any:
    """Return `slope * value + offset`, as a person would write it."""
    if is_number(slope, 0):
        return offset
    if is_number(slope, -1):
        return -value if is_number(offset, 0) else offset - value
    scaled = value if is_number(slope, 1) else slope * value
    if is_number(offset, 0):
        return scaled
    if isinstance(offset, (int, float)) and offset < 0:
        return scaled - -offset
    return scaled + offset


def log_abs(value: Any) -> Any:
    """Return log |value|, of a number of Python as such a number."""
    if isinstance(value, (int, float)):
        return math.log(abs(value)) if value else -math.inf
    return jnp.log(jnp.abs(value))
