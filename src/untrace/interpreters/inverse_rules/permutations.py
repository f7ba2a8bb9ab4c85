"""Inverses of sorting, and of taking and writing elements by indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from untrace.interpreters.inverse_rules.table import solves
from untrace.interpreters.inverting.cells import Cell
from untrace.interpreters.inverting.lazy import Lazy
from untrace.interpreters.inverting.step import PART, TWO, NotInvertible, Step

# ---- sorting -----------------------------------------------------------------------


@solves("sort", "the permutation is known, as the sorted positions are a result")
def _sort(step: Step) -> None:
    axis, operands = step.params["dimension"], step.operands
    positions = [
        (i, step.result(i))
        for i, cell in enumerate(operands)
        if cell.whole is not None and _is_iota(cell.whole.concrete(), axis)
    ]
    order = next((lazy for _, lazy in positions if lazy is not None), None)
    if order is None:
        raise NotInvertible("information lost: the order of the elements is not known")
    news = False
    for i, cell in enumerate(operands):
        ys = step.result(i) or _sorted_elsewhere(step, i)
        if not cell.is_known and ys is not None:
            _solve_sorted(step, i, ys, order, axis)
            news = True
    if not news:
        raise NotInvertible("information lost: the sorted elements are not known")


def _solve_sorted(step: Step, i: int, ys: Lazy, order: Lazy, axis: int) -> None:
    step.solve(i, lambda y, o: unsorted(y, o, axis), ys, order, log_det=0.0)


def _is_iota(values: Any, axis: int) -> bool:
    if values is None or values.dtype.kind not in "iu":
        return False
    shape = [1] * values.ndim
    shape[axis] = -1
    return bool((values == np.arange(values.shape[axis]).reshape(shape)).all())


def _sorted_elsewhere(step: Step, i: int) -> Lazy | None:
    """Find the same operand sorted alone, as by `jnp.sort` beside `jnp.argsort`."""
    cell, params = step.operands[i], step.params
    for node in cell.nodes:
        if node.name != "sort" or node is step.node or i:
            continue
        same = node.eqn.params["dimension"] == params["dimension"]
        if same and node.operands[0] is cell and node.results[0].whole is not None:
            return node.results[0].whole
    return None


def unsorted(y: Any, order: Any, axis: int) -> Any:
    """Put sorted elements back to their places."""
    return jnp.take_along_axis(y, jnp.argsort(order, axis=axis), axis=axis)


@solves("top_k", "all elements are kept, and the positions are known")
def _top_k(step: Step) -> None:
    y, order = step.needed_result(0), step.needed_result(1)
    axis = step.params.get("axis", -1)
    if step.operands[0].shape != step.results[0].shape:
        raise NotInvertible("information lost: small elements are left out")
    step.solve(0, lambda y, order: unsorted(y, order, axis), y, order, log_det=0.0)


# ---- by indices --------------------------------------------------------------------


@solves(
    "gather",
    "the indices are constant, or known and as many as elements along one axis: then they "
    "are taken to be a permutation",
)
def _gather(step: Step) -> None:
    y, indices = step.needed_result(), step.operand(1)
    if step.operands[0].is_known or indices is None:
        raise NotInvertible(TWO)
    if (
        indices.concrete() is not None
    ):  # what moves where is followed element by element
        raise NotInvertible(PART)
    numbers = step.params["dimension_numbers"]
    axis = _permuted_axis(
        step, numbers.start_index_map, numbers.collapsed_slice_dims, step.operands[0]
    )
    if axis is None or numbers.operand_batching_dims:
        raise NotInvertible("the indices are not constants")
    kept = set(numbers.offset_dims)
    row = next(i for i in range(len(step.results[0].shape)) if i not in kept)

    def put_back(y: Any, indices: Any) -> Any:
        places = jnp.argsort(jnp.ravel(indices))
        return jnp.take(jnp.moveaxis(y, row, axis), places, axis=axis)

    step.solve(0, put_back, y, indices, log_det=0.0)


def _permuted_axis(
    step: Step, named: Sequence[int], dropped: Sequence[int], whole: Cell
) -> int | None:
    """Return the axis along which known indices may permute a value: one for each place."""
    shape = step.operands[1].shape
    if len(named) != 1 or tuple(named) != tuple(dropped) or len(shape) != 2:
        return None
    axis = named[0]
    others = [n for i, n in enumerate(whole.shape) if i != axis]
    moved = step.operands[2] if len(step.operands) > 2 else step.results[0]
    is_full = sorted(moved.shape) == sorted([*others, shape[0]])
    return axis if is_full and shape[0] == whole.shape[axis] else None


@solves(
    "scatter", "the indices are constant, as parts; or a permutation, as of `gather`"
)
def _scatter(step: Step) -> None:
    y, indices = step.needed_result(), step.operand(1)
    if indices is None:
        raise NotInvertible("the indices are not known")
    if step.operands[2].is_known or indices.concrete() is not None:
        raise NotInvertible("information lost: the elements that were replaced")
    numbers = step.params["dimension_numbers"]
    axis = _permuted_axis(
        step,
        numbers.scatter_dims_to_operand_dims,
        numbers.inserted_window_dims,
        step.operands[0],
    )
    if axis is None or numbers.operand_batching_dims:
        raise NotInvertible("the indices are not constants")
    kept = set(numbers.update_window_dims)
    row = next(i for i in range(len(step.operands[2].shape)) if i not in kept)

    def taken(y: Any, indices: Any) -> Any:
        return jnp.moveaxis(jnp.take(y, jnp.ravel(indices), axis=axis), axis, row)

    step.solve(2, taken, y, indices, log_det=0.0)
