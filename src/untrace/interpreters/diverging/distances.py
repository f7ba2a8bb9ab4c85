"""How far two values are from each other, and whether that is more than rounding.

Numbers with a fraction are compared on a scale: the larger of two elements, or the root
mean square of the arrays if that is larger still. An element that is nearly 0 in an array
of ones would count as quite another value otherwise. All else is compared exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.interpreters.diverging.coarseness import coarser

Array = np.ndarray[Any, Any]

HALF_ULPS, ULPS = 4, 64
"""How many units of the last place are tolerated by default: of types of 16 bits or less,
and of others."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What is no difference: `|a - b| <= atol + rtol * scale`.

    Attributes:
      rtol: By default some units of the last place of the coarsest type that a value was
        computed of.
      atol: In the units of the values.
    """

    rtol: float | None = None
    atol: float = 0.0

    def relative(self, dtype: Any) -> float:
        """Return what is tolerated of values of a type, relative to their scale."""
        if self.rtol is not None:
            return self.rtol
        info = jnp.finfo(dtype)
        return float(info.eps) * (HALF_ULPS if info.bits <= 16 else ULPS)


@dataclass(frozen=True, slots=True)
class Distance:
    """How far two values are from each other.

    Attributes:
      abs: The largest difference of two elements; infinite between a number and a NaN,
        or an infinity.
      rel: The largest difference relative to the scale.
      ulps: The largest difference in units of the last place, at the scale, of the
        coarsest type; None for what has no fraction.
      n_other: How many elements are not equal at all.
      n_beyond: How many differ by more than the tolerance.
      n_elements: How many there are.
      index: Where the difference is the largest for the tolerance.
      value: The element of the first value there.
      other: The element of the second value there.
      limit: What was tolerated, relative to the scale; None if nothing was.
      what: "shape" if the values have other shapes, and cannot be compared; or "".
    """

    abs: float
    rel: float
    ulps: float | None
    n_other: int
    n_beyond: int
    n_elements: int
    index: tuple[int, ...]
    value: Any
    other: Any
    limit: float | None = None
    what: str = ""

    @property
    def is_beyond(self) -> bool:
        """Whether the values differ by more than the tolerance."""
        return bool(self.what or self.n_beyond)


def as_array(value: Any) -> Array | None:
    """Return a value as an array, keys as their bits; None if it has no elements."""
    aval = jaxapi.aval_of(value)
    if jaxapi.is_key(aval):
        value = jax.random.key_data(value)
    dtype = getattr(value, "dtype", None)
    if dtype == jaxapi.FLOAT0 or jaxapi.is_token(aval):
        return None
    return np.asarray(value)


@np.errstate(invalid="ignore", over="ignore")
def distance(
    value: Array, other: Array, tolerance: Tolerance, coarsest: Any = None
) -> Distance:
    """Compare two values.

    Args:
      value: The first.
      other: The second.
      tolerance: What is no difference.
      coarsest: The type with the largest steps of all that they were computed of.
    """
    if value.shape != other.shape:
        return Distance(
            math.inf,
            math.inf,
            None,
            0,
            0,
            0,
            (),
            value.shape,
            other.shape,
            None,
            "shape",
        )
    if not value.size:
        return Distance(0.0, 0.0, None, 0, 0, 0, (), None, None)
    coarse = _coarser(value.dtype, other.dtype)
    coarse = None if coarse is None else coarser(coarse, coarsest)
    ones, others = _wide(value), _wide(other)
    is_other = value != other
    if coarse is not None:
        is_other = (ones != others) & ~(np.isnan(ones) & np.isnan(others))
    apart = np.where(is_other, np.abs(ones - others), 0.0)
    apart = np.where(np.isnan(apart), math.inf, apart)
    scale = _scale(ones, others)
    rel = apart / scale
    if coarse is None:
        is_beyond, worst, ulps = is_other, apart, None
    else:
        allowed = tolerance.atol + tolerance.relative(coarse) * scale
        is_beyond = apart > allowed
        least = np.finfo(np.float64).tiny  # that nothing is allowed is a wish, too
        worst = apart / np.maximum(allowed, least)
        ulps = float(_ulps(apart, scale, coarse).max())
    index = np.unravel_index(int(np.argmax(worst)), value.shape)
    return Distance(
        float(apart.max()),
        float(rel.max()),
        ulps,
        int(is_other.sum()),
        int(is_beyond.sum()),
        value.size,
        tuple([int(i) for i in index]),
        value[index],
        other[index],
        None if coarse is None else tolerance.relative(coarse),
    )


def _coarser(dtype: Any, other: Any) -> Any:
    """The type with the larger steps; None if neither has fractions."""
    one, two = (d if jnp.issubdtype(d, jnp.inexact) else None for d in (dtype, other))
    return coarser(one, two)


def _wide(array: Array) -> Array:
    is_complex = jnp.issubdtype(array.dtype, jnp.complexfloating)
    return array.astype(np.complex128 if is_complex else np.float64)


def _scale(ones: Array, others: Array) -> Array:
    """What differences are relative to, by element; never 0."""
    sizes = np.abs(ones), np.abs(others)
    finite = [np.where(np.isfinite(size), size, 0.0) for size in sizes]
    scale = np.maximum(np.maximum(*finite), max(map(_root_mean_square, finite)))
    return np.where(scale == 0, 1.0, scale)


def _root_mean_square(sizes: Array) -> float:
    largest = float(sizes.max())
    if not largest:
        return 0.0
    return largest * math.sqrt(float(np.mean((sizes / largest) ** 2)))


def _ulps(apart: Array, scale: Array, dtype: Any) -> Array:
    info = jnp.finfo(dtype)
    _, exponent = np.frexp(scale)
    steps = np.ldexp(float(info.eps), exponent - 1)
    return apart / np.maximum(steps, float(info.smallest_subnormal))
