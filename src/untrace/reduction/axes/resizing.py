"""Give an axis another size throughout a program.

Inputs are sliced; params that mention sizes follow: one line per primitive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from untrace.axes.factors import Dims, Factor, leaves
from untrace.axes.sites import Site
from untrace.ir import Equation, Value
from untrace.reduction.axes.finding import Axes, Axis
from untrace.reduction.axes.indices import indexing_inputs
from untrace.reduction.axes.places import (
    conv_params,
    gather_params,
    pad_params,
    slice_params,
    window_params,
)
from untrace.reduction.axes.solving import Sizes, solve
from untrace.reduction.edits import Edits
from untrace.reduction.program import Program

SizeRule = Callable[[Site, Sizes], Mapping[str, Any]]


def resized(program: Program, axis: Axis, size: int, start: int = 0) -> Edits | None:
    """Give one axis another size.

    Args:
      program: The program `axis` was found in.
      axis: One of `find_axes(program.block).groups`.
      size: In elements, at least 1 and less than now.
      start: First element of the inputs to take.

    Returns:
      The edits, or None if the axis cannot have this size. Axes that depend on it (a
      slice, a concatenation) get other sizes as well.
    """
    return resized_together(program, {axis: size}, {axis: start})


def resized_together(
    program: Program,
    sizes: Mapping[Axis, int],
    starts: Mapping[Axis, int] | None = None,
) -> Edits | None:
    """Give several axes of one `find_axes` other sizes at once."""
    table = next(iter(sizes)).table
    found = solve({axis.factor: size for axis, size in sizes.items()}, table.relations)
    if found is None:
        return None
    first = {axis.factor: start for axis, start in (starts or {}).items()}
    params: dict[Equation, Mapping[str, Any]] = {}
    for eqn, site in table.sites.items():
        changed = _params(site, found)
        if changed:
            params[eqn] = changed
    return Edits(params=params, inputs=_inputs(program, table.axes, found, first))


def all_resized(
    program: Program, axes: Axes, size: int, starts: Mapping[Axis, int] | None = None
) -> Edits | None:
    """Give all axes that are longer one size, as far as they can have it together."""
    chosen: dict[Axis, int] = {}
    for axis in axes.groups:
        if axis.size > size:
            wanted = {**chosen, axis: size}
            factors = {each.factor: n for each, n in wanted.items()}
            if solve(factors, axis.table.relations) is not None:
                chosen = wanted
    return resized_together(program, chosen, starts) if chosen else None


def where_it_is(axes: Axes, value: Value, index: int) -> dict[Axis, int]:
    """Return where an element of an input is along each axis that it has.

    Args:
      axes: Those of the program.
      value: The input.
      index: The number of the element in the flat array.
    """
    longer = {axis.factor: axis for axis in axes.groups if axis.size > 1}
    table = next((axis.table for axis in longer.values()), None)
    if table is None or value not in table.axes:
        return {}
    found = leaves(table.axes[value])
    places = np.unravel_index(index, [leaf.size for leaf in found])
    pairs = [(leaf, int(place)) for leaf, place in zip(found, places)]
    return {longer[leaf]: place for leaf, place in pairs[::-1] if leaf in longer}


def _params(site: Site, sizes: Sizes) -> Mapping[str, Any]:
    rule = SIZES.get(site.eqn.name)
    if rule is None:
        return {}
    if not sizes.is_changed((*site.all_dims(), *site.sizes.values())):
        return {}
    made = rule(site, sizes)
    return {key: value for key, value in made.items() if value != site.params[key]}


def _inputs(
    program: Program,
    axes: Mapping[Value, Dims],
    sizes: Sizes,
    starts: Mapping[Factor, int],
) -> dict[Value, Any]:
    limits = indexing_inputs(program.block, axes, sizes)

    def change(value: Value) -> Callable[[Any], Any]:
        is_sliced = value in axes and sizes.is_changed(axes[value])

        def changed(array: Any) -> Any:
            if is_sliced:
                array = _sliced(array, axes[value], sizes, starts)
            limit = limits.get(value)
            if limit is not None and np.any(array >= limit):
                array = np.clip(array, -limit, limit - 1)
            return array

        return changed

    rows = zip(program.block.inputs, program.values, program.controls or program.values)
    return {
        value: change(value)
        for value, array, control in rows
        if (value in axes and sizes.is_changed(axes[value]))
        or (value in limits and np.any(np.maximum(array, control) >= limits[value]))
    }


def _sliced(array: Any, dims: Dims, sizes: Sizes, starts: Mapping[Factor, int]) -> Any:
    """Take the part of an array that is left when factors of its axes shrink."""
    found = leaves(dims)
    taken: list[slice] = []
    for leaf in found:
        size = sizes.size(leaf)
        start = min(starts.get(leaf, 0), leaf.size - size)
        taken.append(slice(start, start + size))
    parts = array.reshape([leaf.size for leaf in found])[tuple(taken)]
    left = parts.reshape(sizes.shape(dims))
    return left.copy() if isinstance(left, np.ndarray) else left


def _to_result(param: str) -> SizeRule:
    return lambda site, sizes: {param: sizes.shape(site.result)}


def _split(site: Site, sizes: Sizes) -> Mapping[str, Any]:
    axis = site.params["axis"]
    return {"sizes": tuple(sizes.size(dims[axis]) for dims in site.results)}


def _top_k(site: Site, sizes: Sizes) -> Mapping[str, Any]:
    axis = site.params.get("axis", len(site.first) - 1)
    return {"k": sizes.size(site.result[axis])}


def _fft(site: Site, sizes: Sizes) -> Mapping[str, Any]:
    n = len(site.params["fft_lengths"])
    last = site.params["fft_lengths"][-1]
    shape = sizes.shape(site.first[-n:])
    is_real = site.first[-1].size != site.result[-1].size
    return {"fft_lengths": (*shape[:-1], last if is_real else shape[-1])}


def _random(site: Site, sizes: Sizes) -> Mapping[str, Any]:
    return {"shape": sizes.shape(site.result[len(site.first) :])}


SIZES: dict[str, SizeRule] = {
    "broadcast_in_dim": _to_result("shape"),
    "broadcast_to": _to_result("shape"),
    "reshape": _to_result("new_sizes"),
    "iota": _to_result("shape"),
    "iota_2x32_shape": _to_result("shape"),
    "empty": _to_result("shape"),
    "empty2": _to_result("shape"),
    "dynamic_slice": _to_result("slice_sizes"),
    "split": _split,
    "top_k": _top_k,
    "fft": _fft,
    "random_bits": _random,
    "random_split": _random,
    "rng_bit_generator": lambda site, sizes: {"shape": sizes.shape(site.results[1])},
    "scan": lambda site, sizes: {"length": sizes.size(site.sizes["length"])},
    "slice": slice_params,
    "pad": pad_params,
    "gather": gather_params,
    "conv_general_dilated": conv_params,
    "reduce_window": window_params,
    "reduce_window_max": window_params,
    "reduce_window_min": window_params,
    "reduce_window_sum": window_params,
    "select_and_scatter_add": window_params,
    "select_and_gather_add": window_params,
}
