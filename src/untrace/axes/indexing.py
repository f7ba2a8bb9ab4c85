"""Which axes are equal where parts of arrays are read, written and put together.

A part that is not the whole of an axis has a size of its own, at most that of the axis:
when either changes, the part is taken from as near its place as fits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from untrace.axes.factors import (
    Dims,
    equal,
    equate,
    freeze,
    frozen,
    keep,
)
from untrace.axes.sites import Site


def _taken(site: Site, part: Dims, whole: Dims) -> None:
    """Relate the axes of a part of an array to those of the array."""
    for mine, theirs in zip(part, whole):
        if mine.size == theirs.size:
            equate([mine], [theirs])
        else:
            site.at_most(mine, theirs)


def _slice(site: Site) -> None:
    strides = site.params["strides"] or (1,) * len(site.first)
    starts = site.params["start_indices"]
    for part, whole, start, stride in zip(site.result, site.first, starts, strides):
        if part.size == whole.size:
            equate([part], [whole])
        elif stride > 1 and whole.size == part.size * stride and start < stride:
            equate([whole], [part, frozen(stride)])
        else:
            site.at_most(part, whole)


def _pad(site: Site) -> None:
    for part, whole, (low, high, interior) in zip(
        site.first, site.result, site.params["padding_config"]
    ):
        step = interior + 1
        if part.size == whole.size and not (low or high or interior):
            equate([part], [whole])
        elif interior and whole.size == part.size * step and 0 <= low < step:
            equate([whole], [part, frozen(step)])
        elif part.size <= whole.size:
            site.at_most(part, whole)
        else:
            site.at_most(whole, part)


def _dynamic_slice(site: Site) -> None:
    _taken(site, site.result, site.first)


def _dynamic_update_slice(site: Site) -> None:
    _taken(site, site.operands[1], site.first)
    equal(site.first, site.result)


def _concatenate(site: Site) -> None:
    _joined(site, site.operands, site.result, int(site.params["dimension"]))


def _split(site: Site) -> None:
    _joined(site, site.results, site.first, int(site.params["axis"]))


def _joined(site: Site, parts: Sequence[Dims], whole: Dims, axis: int) -> None:
    """Relate values to their concatenation; parts of equal size may share their size."""
    for dims in parts:
        for i, dim in enumerate(dims):
            if i != axis:
                equate([dim], [whole[i]])
    sizes = [dims[axis] for dims in parts]
    if len(sizes) == 1:
        return equate(sizes, [whole[axis]])
    keep([*sizes, whole[axis]])
    if not site.ties_parts or any(size.size != sizes[0].size for size in sizes):
        return site.is_sum(whole[axis], sizes)
    for size in sizes[1:]:
        equate([size], [sizes[0]])
    if sizes[0].size:
        equate([whole[axis]], [frozen(len(sizes)), sizes[0]])
    else:
        freeze([whole[axis]])


def _gather(site: Site) -> None:
    numbers = site.params["dimension_numbers"]
    array, indices = site.operands
    windows, rest = _divided(site.result, numbers.offset_dims)
    _taken(site, windows, _others(array, gather_hidden(numbers)))
    _indexed(
        array,
        indices,
        rest,
        numbers.operand_batching_dims,
        numbers.start_indices_batching_dims,
    )


def _scatter(site: Site) -> None:
    numbers = site.params["dimension_numbers"]
    array, indices, updates = site.operands
    windows, rest = _divided(updates, numbers.update_window_dims)
    _taken(site, windows, _others(array, scatter_hidden(numbers)))
    _indexed(
        array,
        indices,
        rest,
        numbers.operand_batching_dims,
        numbers.scatter_indices_batching_dims,
    )
    equal(array, site.result)


def gather_hidden(numbers: Any) -> tuple[int, ...]:
    """List the axes of the array that a gather does not return as windows."""
    return (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)


def scatter_hidden(numbers: Any) -> tuple[int, ...]:
    """List the axes of the array that the updates of a scatter do not have."""
    return (*numbers.inserted_window_dims, *numbers.operand_batching_dims)


def _indexed(
    array: Dims,
    indices: Dims,
    rest: Dims,
    array_batch: Sequence[int],
    indices_batch: Sequence[int],
) -> None:
    """Relate the indices to the axes that they give the result."""
    freeze(indices[-1:])
    keep(indices[-1:])
    equal(indices[:-1], rest)
    equal([array[i] for i in array_batch], [indices[i] for i in indices_batch])


def _divided(dims: Dims, axes: Sequence[int]) -> tuple[Dims, Dims]:
    """Return the axes in `axes`, and the others."""
    return tuple(dims[i] for i in sorted(axes)), _others(dims, axes)


def _others(dims: Dims, axes: Sequence[int]) -> Dims:
    return tuple(dim for i, dim in enumerate(dims) if i not in axes)


INDEXING_LINKS: dict[str, Callable[[Site], None]] = {
    "slice": _slice,
    "pad": _pad,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "concatenate": _concatenate,
    "split": _split,
    "gather": _gather,
    "scatter": _scatter,
    "scatter-add": _scatter,
    "scatter-max": _scatter,
    "scatter-min": _scatter,
    "scatter-mul": _scatter,
    "scatter-sub": _scatter,
}
