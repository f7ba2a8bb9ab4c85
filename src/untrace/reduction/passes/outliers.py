"""Find the elements of inputs that a failure of values may come from.

Those are unlike the others: not finite, zero, of the rarer sign, largest or least. An axis that
shrinks to another element may lose the failure with the one that it needs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from untrace import jaxapi
from untrace.reduction.axes import Axes, Axis, where_it_is
from untrace.reduction.program import Program

MAX_PLACES = 3
"""Elements that are tried."""


def outlying_places(program: Program, axes: Axes) -> list[dict[Axis, int]]:
    """List where elements unlike the others are, along the axes of a program."""
    found: dict[tuple[tuple[int, int], ...], dict[Axis, int]] = {}
    for value, array in zip(program.block.inputs, program.values):
        for index in outlying(array):
            place = where_it_is(axes, value, index)
            key = tuple(sorted((id(axis), at) for axis, at in place.items()))
            if any(place.values()):  # the first element is tried anyway
                found.setdefault(key, place)
    return list(found.values())[:MAX_PLACES]


def outlying(array: Any) -> list[int]:
    """List elements of an array that are unlike the others, the first of each kind.

    >>> outlying(np.array([3.0, -1.0, 2.0, 5.0]))
    [1, 3]
    """
    if jaxapi.is_key_array(array) or np.size(array) < 2:
        return []
    flat = np.asarray(array).reshape(-1)
    is_complex = jaxapi.dtype_kind(flat.dtype) == "complex"
    flat = np.abs(flat) if is_complex else flat.astype(np.float64)
    kinds = np.select(
        [np.isnan(flat), np.isinf(flat), flat == 0, flat < 0], range(4), 4
    )
    _, first, counts = np.unique(kinds, return_index=True, return_counts=True)
    rare = [int(first[i]) for i in np.argsort(counts) if 2 * counts[i] <= flat.size]
    size = np.where(np.isfinite(flat), np.abs(flat), 0)
    return list(dict.fromkeys([*rare, int(size.argmax()), int(size.argmin())]))
