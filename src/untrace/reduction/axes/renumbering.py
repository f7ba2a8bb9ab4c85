"""Params with an entry for each axis, or with several lists of axes, without some axes.

A rule returns None where the equation needs the axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from untrace.axes.factors import Dims
from untrace.reduction.axes.removals import Removal
from untrace.reduction.edits import Edits

RemovalRule = Callable[[Removal], Edits | None]


def per_axis(*names: str) -> RemovalRule:
    """Leave out the entries of params that have one for each axis."""

    def rule(removal: Removal) -> Edits | None:
        site = removal.site
        arrays = [dims for dims in (*site.operands, *site.results) if dims]
        if any(removal.gone(dims) != removal.gone(arrays[0]) for dims in arrays):
            return None
        given = {name: site.params[name] for name in names if site.params[name]}
        return removal.set(
            **{name: removal.of(arrays[0], param) for name, param in given.items()}
        )

    return rule


def dynamic(n_arrays: int, *names: str) -> RemovalRule:
    """Leave out the operands that say where along the axis."""

    def rule(removal: Removal) -> Edits | None:
        site = removal.site
        arrays = (*site.operands[:n_arrays], site.result)
        if any(removal.gone(dims) != removal.gone(arrays[0]) for dims in arrays):
            return None
        params = {name: removal.of(site.first, site.params[name]) for name in names}

        def function(operands: list[Any]) -> Sequence[Any]:
            starts = removal.of(site.first, operands[n_arrays:])
            return removal.bound([*operands[:n_arrays], *starts], **params)

        return removal.rewritten(function)

    return rule


def gather(removal: Removal) -> Edits | None:
    """Renumber the axes of a gather; the axis must not be indexed."""
    numbers = removal.site.params["dimension_numbers"]
    array, indices = removal.site.operands
    result = removal.site.result
    if not _agree(removal, array, result, numbers.offset_dims, numbers.start_index_map):
        return None
    made = numbers._replace(
        offset_dims=removal.renumbered(result, numbers.offset_dims),
        collapsed_slice_dims=removal.renumbered(array, numbers.collapsed_slice_dims),
        start_index_map=removal.renumbered(array, numbers.start_index_map),
        operand_batching_dims=removal.renumbered(array, numbers.operand_batching_dims),
        start_indices_batching_dims=removal.renumbered(
            indices, numbers.start_indices_batching_dims
        ),
    )
    sizes = removal.of(array, removal.site.params["slice_sizes"])
    return removal.set(dimension_numbers=made, slice_sizes=sizes)


def scatter(removal: Removal) -> Edits | None:
    """Renumber the axes of a scatter; the axis must not be indexed."""
    numbers = removal.site.params["dimension_numbers"]
    array, indices, updates = removal.site.operands
    windows, indexed = numbers.update_window_dims, numbers.scatter_dims_to_operand_dims
    if not _agree(removal, array, updates, windows, indexed):
        return None
    made = numbers._replace(
        update_window_dims=removal.renumbered(updates, windows),
        inserted_window_dims=removal.renumbered(array, numbers.inserted_window_dims),
        scatter_dims_to_operand_dims=removal.renumbered(array, indexed),
        operand_batching_dims=removal.renumbered(array, numbers.operand_batching_dims),
        scatter_indices_batching_dims=removal.renumbered(
            indices, numbers.scatter_indices_batching_dims
        ),
    )
    return removal.set(dimension_numbers=made)


def _agree(
    removal: Removal,
    array: Dims,
    windows: Dims,
    window_axes: Sequence[int],
    indexed: Sequence[int],
) -> bool:
    """Whether the axis goes from an array as from its windows, and no index."""
    gone = removal.gone(array)
    n_gone = sum(axis in window_axes for axis in removal.gone(windows))
    hidden = removal.site.params["dimension_numbers"].operand_batching_dims
    n_hidden = sum(axis in hidden for axis in gone)
    return len(gone) == n_gone + n_hidden and not set(gone) & set(indexed)


def conv(removal: Removal) -> Edits | None:
    """Remove a spatial axis from input, window and output of a convolution."""
    params, numbers = removal.site.params, removal.site.params["dimension_numbers"]
    (left, right), result = removal.site.operands, removal.site.result
    ends = [
        [dims[i] for i in spec[2:]]
        for dims, spec in (
            (left, numbers.lhs_spec),
            (right, numbers.rhs_spec),
            (result, numbers.out_spec),
        )
    ]
    gone = [list(map(removal.is_gone, dims)) for dims in ends]
    if gone[0] != gone[1] or gone[0] != gone[2] or not any(gone[0]):
        return None
    left_places = tuple(ends[0])
    per_axis = ("window_strides", "padding", "lhs_dilation", "rhs_dilation")
    return removal.set(
        dimension_numbers=type(numbers)(
            removal.renumbered(left, numbers.lhs_spec),
            removal.renumbered(right, numbers.rhs_spec),
            removal.renumbered(result, numbers.out_spec),
        ),
        **{name: removal.of(left_places, params[name]) for name in per_axis},
    )
