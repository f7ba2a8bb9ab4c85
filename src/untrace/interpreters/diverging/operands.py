"""What an equation was given in two runs, for reading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from untrace.interpreters.diverging.distances import Array, as_array
from untrace.interpreters.diverging.result import Operand
from untrace.interpreters.diverging.rows import Names

_OWN_ORDER = frozenset(
    {
        *("approx_top_k", "argsort", "cholesky", "concatenate", "conv_general_dilated"),
        *("cummax", "cummin", "cumprod", "cumsum", "cumlogsumexp", "dot_general"),
        *("dynamic_slice", "dynamic_update_slice", "fft", "gather", "lu", "pad", "rev"),
        *("scan", "scatter", "scatter-add", "slice", "sort", "transpose", "while"),
        *("eig", "eigh", "geqrf", "householder_product", "qr", "schur", "svd"),
        *("triangular_solve", "custom_linear_solve", "cond"),
    }
)
"""Primitives whose result at one place does not come from the operands at that place."""


def operands_of(
    equation: Any,
    index: tuple[int, ...],
    shape: tuple[int, ...],
    operands: Sequence[Any],
    others: Sequence[Any],
    names: Names,
) -> tuple[Operand, ...]:
    """Describe what an equation was given.

    Args:
      index: Where its result is of interest.
      shape: The shape of that result.
      operands: What it was given in the first run.
      others: The same in the other run; empty if that is not known.
      names: What values are called.
    """
    is_alike = equation.primitive.name not in _OWN_ORDER
    made: list[Operand] = []
    for k, value in enumerate(operands):
        atom = equation.invars[k] if k < len(equation.invars) else None
        mine = as_array(value)
        theirs = _known(others, k)
        if mine is None:
            continue
        at = index if is_alike else ()
        texts = [
            "" if array is None else _text(array, at, shape) for array in (mine, theirs)
        ]
        name, variable = names.of(atom)
        made.append(Operand(variable or name, mine, theirs, texts[0], texts[1]))
    return tuple(made)


def _known(others: Sequence[Any], number: int) -> Array | None:
    is_known = number < len(others) and others[number] is not None
    return as_array(others[number]) if is_known else None


def _text(array: Array, index: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Write the element that a result comes from, or what an array is like."""
    if array.ndim == 0:
        return str(array[()])
    is_broadcast = array.ndim == len(shape) == len(index) and all(
        n in (1, m) for n, m in zip(array.shape, shape)
    )
    if is_broadcast:
        own = tuple([min(i, n - 1) for i, n in zip(index, array.shape)])
        return str(array[own])
    kind = f"{array.dtype}{list(array.shape)}"
    is_real = array.dtype.kind not in "cOUS" and array.size
    if not is_real:
        return kind
    wide = array.astype(np.float64)
    if np.isnan(wide).any():
        return f"{kind} with NaN"
    return f"{kind} from {wide.min():.6g} to {wide.max():.6g}"
