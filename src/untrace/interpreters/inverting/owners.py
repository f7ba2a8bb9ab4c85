"""Which element of a value each element of another one depends on.

An elementwise function may be written with more axes: a spline compares each number with
all knots, and sums what belongs to its bin. Such equations are followed with the number of
the element that they depend on in the place of each element.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from untrace.interpreters.inverse_rules.table import ELEMENTWISE
from untrace.interpreters.inverting.cells import Mask
from untrace.interpreters.inverting.elements import MOVES, PLAIN
from untrace.interpreters.inverting.lazy import Lazy
from untrace.interpreters.inverting.network import IDENTITY, Node, evaluated

Owners = Mask
"""For each element the number of the one that it depends on, or NONE."""

NONE = -1

REDUCTIONS = {
    "reduce_sum",
    "reduce_prod",
    "reduce_max",
    "reduce_min",
    "reduce_and",
    "reduce_or",
    "reduce_xor",
    "argmax",
    "argmin",
}

COUNTERS = {"population_count", "clz", "not", "xor", "convert_element_type", "sign"}
"""Elementwise functions without an inverse that steps are computed with, too."""


def owners_of(node: Node, operands: Sequence[Owners | None]) -> list[Owners] | None:
    """Return the owners of results, given those of operands; None of one that is known.

    Returns:
      None if an element depends on several elements, or the equation is not followed.
    """
    if is_lookup(node):
        return _looked_up(node, operands)
    if node.name in MOVES:
        return _moved(node, operands)
    if node.name in REDUCTIONS:
        return _reduced(node, operands)
    if node.name == "dot_general":
        return _multiplied(node, operands)
    names = (ELEMENTWISE, PLAIN, COUNTERS)
    if node.name == IDENTITY or any(node.name in each for each in names):
        return _combined(node, operands)
    return None


def is_lookup(node: Node) -> bool:
    """Return whether an equation reads elements of what is known, at unknown places."""
    is_one = node.name in ("gather", "dynamic_slice")
    return is_one and node.operands[0].is_known


def _combined(node: Node, operands: Sequence[Owners | None]) -> list[Owners] | None:
    shape = node.results[0].shape
    made = np.full(shape, NONE)
    for owners in operands:
        if owners is None:
            continue
        wide = np.broadcast_to(owners, shape)
        if ((made != wide) & (made != NONE) & (wide != NONE)).any():
            return None
        made = np.maximum(made, wide)
    return [made]


def _moved(node: Node, operands: Sequence[Owners | None]) -> list[Owners] | None:
    n_moved = MOVES[node.name]
    lazies: list[Lazy] = []
    for i, (cell, owners) in enumerate(zip(node.operands, operands)):
        if n_moved is not None and i >= n_moved:
            if cell.whole is None or cell.whole.concrete() is None:
                return None
            lazies.append(cell.whole)
        else:
            numbers = np.full(cell.shape, NONE) if owners is None else owners
            lazies.append(Lazy.of(numbers.astype(np.int32), True))
    made = [lazy.concrete() for lazy in evaluated(node.eqn, lazies)]
    found = [each for each in made if each is not None]
    return found if len(found) == len(made) else None


def _reduced(node: Node, operands: Sequence[Owners | None]) -> list[Owners] | None:
    owners, axes = operands[0], tuple(int(axis) for axis in node.eqn.params["axes"])
    if owners is None or len(operands) != 1:
        return None
    return _agreed(owners, axes, node.results[0].shape)


def _agreed(
    owners: Owners, axes: tuple[int, ...], shape: tuple[int, ...]
) -> list[Owners] | None:
    """Reduce owners along axes, if they agree."""
    greatest = owners.max(axes, initial=NONE)
    others = np.where(owners == NONE, np.iinfo(owners.dtype).max, owners)
    least = others.min(axes, initial=np.iinfo(owners.dtype).max)
    if ((greatest != least) & (greatest != NONE)).any():
        return None
    return [greatest.reshape(shape)]


def _multiplied(node: Node, operands: Sequence[Owners | None]) -> list[Owners] | None:
    """Follow a product with what is known: its axes are the batch, then what is free."""
    i = 0 if operands[0] is not None else 1
    owners, contract, batch = operands[i], *node.eqn.params["dimension_numbers"]
    if owners is None or operands[1 - i] is not None:
        return None
    summed = tuple(int(axis) for axis in contract[i])
    made = _agreed(owners, summed, tuple(np.delete(owners.shape, summed)))
    if made is None:
        return None
    left = [axis for axis in range(owners.ndim) if axis not in summed]
    free = [axis for axis in left if axis not in batch[i]]
    order = [left.index(axis) for axis in (*batch[i], *free)]
    shape, n = node.results[0].shape, len(batch[i])
    n_other = len(shape) - n - len(free)
    other = range(n + len(free), len(shape)) if i == 0 else range(n, n + n_other)
    wide = np.expand_dims(made[0].transpose(order), tuple(other))
    return [np.broadcast_to(wide, shape)]


def _looked_up(node: Node, operands: Sequence[Owners | None]) -> list[Owners] | None:
    shape = node.results[0].shape
    if node.name == "dynamic_slice":
        own = [owners for owners in operands[1:] if owners is not None]
        made = _agreed(np.array([int(each) for each in own]), (0,), ())
        return None if made is None else [np.broadcast_to(made[0], shape)]
    indices = operands[1]
    if indices is None:
        return None
    offsets = node.eqn.params["dimension_numbers"].offset_dims
    batch = tuple(1 if i in offsets else n for i, n in enumerate(shape))
    made = _agreed(indices, (indices.ndim - 1,), indices.shape[:-1])
    return None if made is None else [np.broadcast_to(made[0].reshape(batch), shape)]
