"""Remove axes of one element throughout a program: every value loses a rank.

Params that count axes follow: one line per primitive. Equations that would do nothing
go; a primitive without a line keeps its axes, which are added before and taken away
after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jax import lax

from untrace.axes.calls import CALL_LINKS
from untrace.axes.links import ELEMENTWISE, REDUCTIONS
from untrace.ir import Equation, Value
from untrace.reduction.axes.finding import Axes, Axis
from untrace.reduction.axes.removals import Removal
from untrace.reduction.axes.renumbering import (
    RemovalRule,
    conv,
    dynamic,
    gather,
    per_axis,
    scatter,
)
from untrace.reduction.edits import Edits, Rewriting, Substitute
from untrace.reduction.program import Program


def without_axis(program: Program, axis: Axis) -> Edits | None:
    """Remove an axis of size 1 wherever it occurs.

    Args:
      program: The program `axis` was found in.
      axis: One of `find_axes(program.block).groups`, of size 1.

    Returns:
      The edits, or None if the axis must stay, or because more equations would have to
      be added around primitives that need it than would go.
    """
    return _without_all(program, [axis])


def all_removed(program: Program, axes: Axes) -> Edits | None:
    """Remove axes of size 1 together: all, or those that can go by themselves."""
    ones = [axis for axis in axes.groups if axis.size == 1]
    found = _without_all(program, ones)
    if found is not None:
        return found
    alone = [axis for axis in ones if without_axis(program, axis) is not None]
    return _without_all(program, alone)


def _without_all(program: Program, axes: Sequence[Axis]) -> Edits | None:
    if not axes or any(axis.size != 1 or axis.factor.is_kept for axis in axes):
        return None
    factors = frozenset(axis.factor for axis in axes)
    params: dict[Equation, Mapping[str, Any]] = {}
    replaced: dict[Value, Substitute] = {}
    rewritten: dict[Equation, Rewriting] = {}
    n_added = n_gone = 0
    for site in axes[0].table.sites.values():
        removal = Removal(site, factors)
        if not removal.is_touched():
            continue
        rule = REMOVALS.get(site.eqn.name)
        edits = rule(removal) if rule else None
        if edits is None:
            edits = removal.wrapped()
            n_added += removal.n_touched()
        n_gone += bool(edits.replaced)
        params |= edits.params
        replaced |= edits.replaced
        rewritten |= edits.rewritten
    if n_added and n_added >= n_gone:
        return None
    inputs = _inputs(program, axes)
    return Edits(params=params, replaced=replaced, rewritten=rewritten, inputs=inputs)


def _inputs(program: Program, axes: Sequence[Axis]) -> dict[Value, Any]:
    inputs = set(program.block.inputs)
    removed: dict[Value, list[int]] = {}
    for value, i in (place for axis in axes for place in axis.places):
        removed.setdefault(value, []).append(i)
    return {
        value: _without(frozenset(gone))
        for value, gone in removed.items()
        if value in inputs
    }


def _without(gone: frozenset[int]) -> Callable[[Any], Any]:
    """Return what takes axes of one element from an array."""
    return lambda array: array.reshape(
        [n for i, n in enumerate(array.shape) if i not in gone]
    )


def _unchanged(removal: Removal) -> Edits:
    return Edits()


def _to_shape(removal: Removal) -> Edits:
    """Set the shape of the result; without a change of shape the operand is it."""
    site = removal.site
    shape = removal.shape(site.result)
    if site.operands and shape == removal.shape(site.first):
        return removal.passed()
    return removal.set(shape=shape)


def _broadcast_in_dim(removal: Removal) -> Edits:
    first, result = removal.site.first, removal.site.result
    shape = removal.shape(result)
    if shape == removal.shape(first):
        return removal.passed()
    axes = removal.of(first, removal.site.params["broadcast_dimensions"])
    return removal.set(
        shape=shape, broadcast_dimensions=removal.renumbered(result, axes)
    )


def _reshape(removal: Removal) -> Edits:
    first, order = removal.site.first, removal.site.params["dimensions"]
    shape = removal.shape(removal.site.result)
    dimensions = removal.renumbered(first, order or range(len(first)))
    is_ordered = dimensions == tuple(range(len(dimensions)))
    if is_ordered and shape == removal.shape(first):
        return removal.passed()
    return removal.set(new_sizes=shape, dimensions=None if is_ordered else dimensions)


def _transpose(removal: Removal) -> Edits:
    first = removal.site.first
    axes = removal.renumbered(first, removal.site.params["permutation"])
    if axes == tuple(range(len(axes))):
        return removal.passed()
    return removal.set(permutation=axes)


def _over(param: str) -> RemovalRule:
    """Renumber axes that a primitive works over; over none, it does nothing."""

    def rule(removal: Removal) -> Edits:
        axes = removal.renumbered(removal.site.first, removal.site.params[param])
        return removal.set(**{param: axes}) if axes else removal.passed()

    return rule


def _along(param: str) -> RemovalRule:
    """Renumber the one axis that a primitive works along."""

    def rule(removal: Removal) -> Edits:
        axes = removal.renumbered(removal.site.first, [removal.site.params[param]])
        return removal.set(**{param: axes[0]}) if axes else removal.passed()

    return rule


def _zeros(removal: Removal, dtype: Any) -> Edits:
    shape = removal.shape(removal.site.result)
    return removal.rewritten(lambda operands: [lax.full(shape, 0, dtype)])


def _arg(removal: Removal) -> Edits:
    params = removal.site.params
    axes = removal.renumbered(removal.site.first, params["axes"])
    if not axes:
        return _zeros(removal, params["index_dtype"])
    return removal.set(axes=axes)


def _iota(removal: Removal) -> Edits:
    params, result = removal.site.params, removal.site.result
    axes = removal.renumbered(result, [params["dimension"]])
    if not axes:
        return _zeros(removal, params["dtype"])
    return removal.set(shape=removal.shape(result), dimension=axes[0])


def _top_k(removal: Removal) -> Edits | None:
    first = removal.site.first
    axis = removal.site.params.get("axis", len(first) - 1)
    axes = removal.renumbered(first, [axis])
    if not axes or removal.gone(first) != removal.gone(removal.site.result):
        return None
    return removal.set(axis=axes[0]) if "axis" in removal.site.params else Edits()


def _stack(removal: Removal) -> Edits:
    axis = removal.renumbered(removal.site.result, [removal.site.params["axis"]])
    return removal.set(axis=axis[0])


def _dot_general(removal: Removal) -> Edits:
    (left_axes, right_axes), (left_batch, right_batch) = removal.site.params[
        "dimension_numbers"
    ]
    left, right = removal.site.operands
    return removal.set(
        dimension_numbers=(
            (
                removal.renumbered(left, left_axes),
                removal.renumbered(right, right_axes),
            ),
            (
                removal.renumbered(left, left_batch),
                removal.renumbered(right, right_batch),
            ),
        )
    )


def _stacked_matrices(removal: Removal) -> Edits | None:
    """Leave all as it is if the axis is one in which matrices are stacked."""
    site = removal.site
    n_leading = len(site.first) - 2
    every = (*site.operands, *site.results)
    if any(axis >= n_leading for dims in every for axis in removal.gone(dims)):
        return None
    return Edits()


def _fft(removal: Removal) -> Edits | None:
    n_leading = len(removal.site.first) - len(removal.site.params["fft_lengths"])
    if any(axis >= n_leading for axis in removal.gone(removal.site.first)):
        return None
    return Edits()


def _random(removal: Removal) -> Edits:
    site = removal.site
    return removal.set(shape=removal.shape(site.result[len(site.first) :]))


def _rng_bit_generator(removal: Removal) -> Edits:
    return removal.set(shape=removal.shape(removal.site.results[1]))


_UNCHANGED = """
    bitcast_convert_type debug_callback debug_print device_put optimization_barrier
    random_unwrap random_wrap
"""
_window = per_axis("window_dimensions", "window_strides", "padding")
_reduce_window = per_axis(
    "window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation"
)

REMOVALS: dict[str, RemovalRule] = {
    **dict.fromkeys(ELEMENTWISE.split(), _unchanged),
    **dict.fromkeys(CALL_LINKS, _unchanged),
    **dict.fromkeys(_UNCHANGED.split(), _unchanged),
    **dict.fromkeys(REDUCTIONS.split(), _over("axes")),
    "argmax": _arg,
    "argmin": _arg,
    "reduce": _over("dimensions"),
    "broadcast_in_dim": _broadcast_in_dim,
    "broadcast_to": _to_shape,
    "reshape": _reshape,
    "transpose": _transpose,
    "squeeze": _over("dimensions"),
    "rev": _over("dimensions"),
    "cumlogsumexp": _along("axis"),
    "cummax": _along("axis"),
    "cummin": _along("axis"),
    "cumprod": _along("axis"),
    "cumsum": _along("axis"),
    "sort": _along("dimension"),
    "concatenate": _along("dimension"),
    "split": _along("axis"),
    "stack": _stack,
    "unstack": _along("axis"),
    "tile": per_axis("reps"),
    "top_k": _top_k,
    "iota": _iota,
    "empty": _to_shape,
    "empty2": _to_shape,
    "dot_general": _dot_general,
    "slice": per_axis("start_indices", "limit_indices", "strides"),
    "pad": per_axis("padding_config"),
    "dynamic_slice": dynamic(1, "slice_sizes"),
    "dynamic_update_slice": dynamic(2),
    "gather": gather,
    "scatter": scatter,
    "scatter-add": scatter,
    "scatter-max": scatter,
    "scatter-min": scatter,
    "scatter-mul": scatter,
    "scatter-sub": scatter,
    "conv_general_dilated": conv,
    "reduce_window": _reduce_window,
    "reduce_window_max": _reduce_window,
    "reduce_window_min": _reduce_window,
    "reduce_window_sum": _reduce_window,
    "select_and_scatter_add": _window,
    "cholesky": _stacked_matrices,
    "eig": _stacked_matrices,
    "eigh": _stacked_matrices,
    "lu": _stacked_matrices,
    "qr": _stacked_matrices,
    "svd": _stacked_matrices,
    "triangular_solve": _stacked_matrices,
    "fft": _fft,
    "random_bits": _random,
    "random_split": _random,
    "rng_bit_generator": _rng_bit_generator,
}
