"""The weakest strength: outputs agree on the inputs that were given.

Used only when the equations differ, to say how much that matters. Both programs are
compiled and run on the concrete values of the capture.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from untrace import jaxapi


class Agreement(NamedTuple):
    """What running two programs showed.

    Attributes:
      text: How well their outputs agree: "bitwise equal", or for instance
        "within 3e-08 (relative)".
      are_finite: Whether all numbers among the outputs are finite.
    """

    text: str
    are_finite: bool


def outputs_agree(
    expected: Any, actual: Any, values: Sequence[Any]
) -> Agreement | None:
    """Run two jaxprs; say how well their outputs agree, or None if they do not.

    Agreement is bitwise or within `sqrt(eps)` of the dtype, relative to the largest
    magnitude of an output. NaNs agree with NaNs. Programs with effects or without
    concrete values are not run.
    """
    if (
        any(value is None for value in values)
        or jaxapi.split_jaxpr(expected)[0].effects
    ):
        return None
    both = [jax.jit(jaxapi.as_function(jaxpr)) for jaxpr in (expected, actual)]
    try:
        with jaxapi.quiet_callbacks():
            wanted, got = jax.block_until_ready([run(*values) for run in both])
    except Exception:  # either may fail to compile or run; then nothing is known
        return None
    worst = 0.0
    for one, other in zip(wanted, got):
        error = relative_error(one, other)
        if error is None:
            return None
        worst = max(worst, error)
    text = f"within {worst:.0e} (relative)" if worst else "bitwise equal"
    return Agreement(text, are_finite([*wanted, *got]))


def are_finite(arrays: Iterable[Any]) -> bool:
    """Whether all floating and complex numbers are finite."""
    return all(
        bool(jax.numpy.isfinite(array).all())
        for array in arrays
        if not jaxapi.is_key(array)
        and jaxapi.dtype_kind(array.dtype) in ("floating", "complex")
    )


def relative_error(wanted: Any, got: Any) -> float | None:
    """Return the largest error relative to the largest magnitude; None if too large."""
    if jaxapi.is_key(wanted):
        wanted, got = jax.random.key_data(wanted), jax.random.key_data(got)
    if wanted.dtype != got.dtype or wanted.shape != got.shape:
        return None
    first, second = np.asarray(wanted), np.asarray(got)
    if first.tobytes() == second.tobytes():
        return 0.0
    if jaxapi.dtype_kind(wanted.dtype) not in ("floating", "complex"):
        return None
    kind = complex if jaxapi.dtype_kind(wanted.dtype) == "complex" else float
    first, second = first.astype(kind), second.astype(kind)
    finite = np.isfinite(first)
    if not np.array_equal(first[~finite], second[~finite], equal_nan=True):
        return None
    scale = np.max(np.abs(first[finite]), initial=0.0) or 1.0
    error = float(np.max(np.abs(first - second)[finite], initial=0.0) / scale)
    return error if error <= float(jax.numpy.finfo(wanted.dtype).eps) ** 0.5 else None
