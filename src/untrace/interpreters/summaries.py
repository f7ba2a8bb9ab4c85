"""What an array is like, in a few numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from untrace import jaxapi


class Summary(NamedTuple):
    """What an array is like.

    Attributes:
      type: Its type, as JAX writes it.
      min: The smallest element that is finite.
      max: The largest element that is finite.
      mean: The mean of those that are finite.
      norm: The root of the sum of the squares of those that are finite.
      nan: The share of NaNs, from 0 to 1.
      inf: The share of infinities.
      zero: The share of zeros.
    """

    type: str
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    norm: float | None = None
    nan: float = 0.0
    inf: float = 0.0
    zero: float = 0.0


def summary(value: Any) -> Summary:
    """Return what an array is like; of keys and empty arrays the type alone."""
    name = jaxapi.short_type(jaxapi.aval_of(value))
    dtype = jnp.result_type(value)
    is_number = jnp.issubdtype(dtype, jnp.number) or dtype == jnp.bool_
    if not is_number or not jnp.size(value):
        return Summary(name)
    array = np.asarray(value)
    if array.dtype.kind == "c":
        array = np.abs(array)
    array = array.astype(np.float64)
    finite = array[np.isfinite(array)]
    shares = [np.isnan(array).mean(), np.isinf(array).mean(), (array == 0).mean()]
    if not finite.size:
        return Summary(name, None, None, None, None, *map(float, shares))
    numbers = [finite.min(), finite.max(), finite.mean(), np.linalg.norm(finite)]
    return Summary(name, *map(float, numbers), *map(float, shares))
