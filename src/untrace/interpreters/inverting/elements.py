"""Knowledge followed element by element, where a value is known in part.

A masked coupling multiplies by a constant mask, `x * mask`: the product is zero, and so
known, where the mask is; updates of slices, selections and permutations by constant
indices move elements. Which elements an equation moves where is found by letting it move
their numbers. Masks are constants: values are followed by the same operations as a whole.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from untrace.interpreters.inverse_rules.table import (
    ELEMENTWISE,
    Inverse,
    chosen,
    flat,
    masked_slope,
    slopes,
    with_params,
)
from untrace.interpreters.inverting.cells import Cell, Mask
from untrace.interpreters.inverting.combinations import (
    COMBINING,
    RUNNING,
    follow_combining,
    follow_product,
    follow_running,
)
from untrace.interpreters.inverting.lazy import Lazy
from untrace.interpreters.inverting.network import Network, Node, evaluated
from untrace.interpreters.inverting.step import NotInvertible, Step

MOVES = {
    "reshape": 1,
    "squeeze": 1,
    "expand_dims": 1,
    "transpose": 1,
    "rev": 1,
    "broadcast_in_dim": 1,
    "slice": 1,
    "split": 1,
    "unstack": 1,
    "dynamic_slice": 1,
    "gather": 1,
    "pad": 2,
    "dynamic_update_slice": 2,
    "concatenate": None,
    "stack": None,
    "copy": 1,
}
"""How many operands are moved, the first ones; the others say where. None: all."""

PLAIN = [
    "abs",
    "sign",
    "floor",
    "ceil",
    "round",
    "max",
    "min",
    "clamp",
    "rem",
    "and",
    "or",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "is_finite",
    "select_n",
    "erf_inv",
    "lgamma",
    "digamma",
    "stop_gradient",
    "shift_left",
]
"""Elementwise functions that are followed forward only."""


def follow_elements(network: Network) -> bool:
    """Look at equations whose surroundings are known in part; return whether it helped."""
    fresh = list(network.fresh)
    network.fresh.clear()
    return any([_follow(network, node) for node in fresh])


def _follow(network: Network, node: Node) -> bool:
    if node.is_open or node.is_spent or not _is_array_node(node):
        return False
    if node.name in COMBINING:
        return follow_combining(network, node)
    if node.name == "dot_general":
        return follow_product(network, node)
    if node.name in RUNNING:
        return follow_running(network, node)
    moved = _moved(node)
    if moved is not None:
        return _follow_moves(network, node, moved)
    if node.name in ELEMENTWISE or node.name in PLAIN:
        return _follow_elementwise(network, node)
    return False


def _is_array_node(node: Node) -> bool:
    return all(hasattr(c.aval, "shape") for c in (*node.operands, *node.results))


# ---- equations that move elements --------------------------------------------------


def _moved(node: Node) -> list[int] | None:
    """List the operands whose elements an equation moves, if it moves any."""
    operands = range(len(node.operands))
    if node.name == "select_n":
        moved = list(operands[1:])
    elif node.name == "scatter":
        moved = [0, 2]
    elif node.name in MOVES and node.eqn is not None:
        n = MOVES[node.name]
        moved = list(operands if n is None else operands[:n])
    else:
        return None
    others = [node.operands[i].whole for i in operands if i not in moved]
    is_static = all(o is not None and o.concrete() is not None for o in others)
    return moved if is_static else None


def _numbers(network: Network, node: Node, moved: list[int]) -> list[Mask]:
    """Return for each result which element of the moved operands, in a row, is where.

    Elements that come from none of them have a negative number.
    """
    key = "numbers", id(node)
    if key not in network.memory:
        operands: list[Lazy] = []
        start = 1
        for i, cell in enumerate(node.operands):
            if i in moved:
                numbers = np.arange(start, start + cell.size, dtype=np.int32)
                operands.append(Lazy.of(numbers.reshape(cell.shape), True))
                start += cell.size
            elif cell.whole is not None:
                operands.append(Lazy.of(cell.whole.concrete(), True))
        results = [lazy.concrete() for lazy in evaluated(node.eqn, operands)]
        network.memory[key] = [
            np.zeros(cell.shape, np.int32) - 1 if r is None else r - 1
            for cell, r in zip(node.results, results)
        ]
    return network.memory[key]


def _follow_moves(network: Network, node: Node, moved: list[int]) -> bool:
    numbers = _numbers(network, node, moved)
    news = False
    for result, ids in zip(node.results, numbers):
        if result.is_touched:
            start = 0
            for i in moved:
                cell = node.operands[i]
                if not cell.is_known:
                    news |= _move_back(network, result, ids - start, cell)
                start += cell.size
    known = np.concatenate([node.operands[i].known().ravel() for i in moved])
    if known.all() or not known.any():
        return news
    for k, (result, ids) in enumerate(zip(node.results, numbers)):
        mask = np.where(ids >= 0, known[np.maximum(ids, 0)], True)
        if not result.is_known and (mask & ~result.known()).any():
            lazy = _filled_result(node, k)
            news |= bool(network.learn_part(result, mask, lazy))
    return news


def _filled_result(node: Node, k: int) -> Lazy:
    """Return a result as it is computed of operands with other elements filled in."""
    return evaluated(node.eqn, [_harmless(node, cell) for cell in node.operands])[k]


REGULAR = {"add", "add_any", "sub", "mul", "neg", "select_n", "scatter", *MOVES}
"""These are finite, and so are their derivatives, in whatever is in other elements."""


def _harmless(node: Node, cell: Cell) -> Lazy:
    """Return a value that is known in part.

    Numbers where it is not known must not lead to NaN: in a derivative, zero times NaN
    would reach the elements that count.
    """
    return cell.loose() if node.name in REGULAR else cell.filled()


def _are_ones(cell: Cell, mask: Mask) -> bool:
    values = None if cell.whole is None else cell.whole.concrete()
    if values is None:
        return False
    return bool((np.broadcast_to(values, mask.shape)[mask] == 1).all())


def _move_back(network: Network, result: Cell, ids: Mask, cell: Cell) -> bool:
    """Learn the elements of an operand that a result shows."""
    shown = result.known() & (ids >= 0) & (ids < cell.size)
    sources = np.flatnonzero(shown)
    targets, first = np.unique(ids.ravel()[sources], return_index=True)
    sources = sources[first]
    mask = np.zeros(cell.size, bool)
    mask[targets] = True
    mask = mask.reshape(cell.shape)
    if not (mask & ~cell.known()).any():
        return False
    y = result.filled()
    if cell.shape == result.shape and bool((targets == sources).all()):
        return bool(network.learn_part(cell, mask, y))
    axis = _permuted_axis(ids, cell, result)
    if axis is not None:
        order = np.argsort(np.moveaxis(_positions(ids, cell, axis), axis, 0).ravel())
        lazy = Lazy(lambda y: jnp.take(y, jnp.asarray(order), axis=axis), [y])
        return network.learn(cell, lazy)
    aval = cell.aval

    def put_back(y: Any) -> Any:
        values = jnp.ravel(y)[sources]
        if len(targets) == mask.size:
            return values.reshape(aval.shape)
        return (
            jnp.zeros(mask.size, aval.dtype).at[targets].set(values).reshape(mask.shape)
        )

    return bool(network.learn_part(cell, mask, Lazy(put_back, [y])))


def _positions(ids: Mask, cell: Cell, axis: int) -> Mask:
    """Return where the elements along an axis come from, if all rows agree."""
    index = tuple(slice(None) if a == axis else slice(0, 1) for a in range(ids.ndim))
    return np.asarray(np.unravel_index(ids[index], cell.shape)[axis])


def _permuted_axis(ids: Mask, cell: Cell, result: Cell) -> int | None:
    """Return the axis along which elements are permuted, if they are along one alone."""
    if cell.shape != result.shape or not result.is_known or not cell.size:
        return None
    if ids.min() < 0 or ids.max() >= cell.size:
        return None
    whole = np.arange(cell.size).reshape(cell.shape)
    for axis in range(ids.ndim):
        places = _positions(ids, cell, axis).ravel()
        if (np.take(whole, places, axis) == ids).all():
            return axis if len(set(places.tolist())) == len(places) else None
    return None


# ---- elementwise equations ---------------------------------------------------------


def _follow_elementwise(network: Network, node: Node) -> bool:
    result = node.results[0]
    masks = [_wide(cell.known(), result) for cell in node.operands]
    zeros = _zeros(node, result)
    if all(cell.mask is None for cell in (*node.operands, result)) and not any(
        each is not None and each.any() for each in zeros
    ):
        return False
    news = _solve_elements(network, node, masks, zeros)
    known = np.logical_and.reduce(masks)
    for zero in zeros:
        known = known if zero is None else known | zero
    if not result.is_known and (known & ~result.known()).any():
        is_zero = np.logical_or.reduce([z for z in zeros if z is not None] or [~known])
        aval = result.aval
        lazy = (
            Lazy(lambda: jnp.zeros(aval.shape, aval.dtype), (), True)
            if (known <= is_zero).all()
            else _filled_result(node, 0)
        )
        news |= bool(network.learn_part(result, known, lazy))
    return news


def _wide(mask: Mask, result: Cell) -> Mask:
    return np.broadcast_to(mask, result.shape)


def _zeros(node: Node, result: Cell) -> list[Mask | None]:
    """Return for each factor of a product where it is known to be zero."""
    found: list[Mask | None] = []
    for cell in node.operands:
        values = cell.whole.concrete() if node.name == "mul" and cell.whole else None
        found.append(None if values is None else _wide(values == 0, result))
    return found


def _solve_elements(
    network: Network, node: Node, masks: list[Mask], zeros: list[Mask | None]
) -> bool:
    """Solve for the elements of an operand whose results and other operands are known."""
    step, result, news = Step(node, network), node.results[0], False
    for i, cell in enumerate(node.operands):
        others = [j for j in range(len(masks)) if j != i]
        is_stretched = cell.shape != result.shape
        if cell.is_known or node.name not in ELEMENTWISE:
            continue
        if is_stretched and len(cell.shape) != len(result.shape):
            continue
        mask = result.known() & ~cell.known()
        for j in others:
            zero = zeros[j]
            mask = mask & masks[j] if zero is None else mask & masks[j] & ~zero
        if not mask.any():
            continue
        try:
            inverse = chosen(step, ELEMENTWISE[node.name], i)
        except NotInvertible as reason:
            node.refusal = str(reason)
            continue
        needs = [_divisor(node, node.operands[j], zeros[j]) for j in others]
        show = _first_copies(mask, cell) if is_stretched else None
        news |= _learn_elements(network, node, i, inverse, mask, needs, show)
    return news


def _learn_elements(
    network: Network,
    node: Node,
    i: int,
    inverse: Inverse,
    mask: Mask,
    needs: list[Lazy],
    show: Mask | None,
) -> bool:
    """Learn elements of an operand.

    Args:
      network: The program.
      node: An equation.
      i: The number of the operand.
      inverse: How it is solved for.
      mask: The elements of the result that tell it.
      needs: The other operands.
      show: For an operand that is stretched the number of the element that tells each.
    """
    cell, y = node.operands[i], _harmless(node, node.results[0])
    params = {} if node.eqn is None else node.eqn.params
    compute = with_params(inverse.compute, params)
    is_same = node.name == "mul" and _are_ones(node.operands[1 - i], mask)
    if show is not None:
        y, *needs = [_taken(each, mask.shape, show) for each in (y, *needs)]
        axes = tuple(k for k, n in enumerate(cell.shape) if n != mask.shape[k])
        mask = np.asarray(mask.any(axes, keepdims=True))
    if is_same:
        return bool(network.learn_part(cell, mask, y))
    lazy = Lazy(compute, [y, *needs])
    n_new = network.learn_part(cell, mask, lazy)
    if n_new and inverse.slope is not flat:
        slope = slopes(inverse, compute, params)
        log_det = masked_slope(slope, cell, mask)
        Step(node, network).record(log_det, [lazy, y, *needs], cell)
    return bool(n_new)


def _first_copies(mask: Mask, cell: Cell) -> Mask:
    """Return for each element of a stretched value the number of its first copy in a mask."""
    axes = [k for k, n in enumerate(cell.shape) if n != mask.shape[k]]
    last = list(range(-len(axes), 0))
    rows = (max(cell.size, 1), -1)
    numbers = np.moveaxis(np.arange(mask.size).reshape(mask.shape), axes, last)
    first = np.moveaxis(mask, axes, last).reshape(rows).argmax(1)
    shown = numbers.reshape(rows)[np.arange(len(first)), first]
    return shown.reshape(cell.shape)


def _taken(lazy: Lazy, shape: tuple[int, ...], numbers: Mask) -> Lazy:
    """Return elements of a value that is broadcast to a shape, by their numbers."""
    return Lazy(
        lambda value: jnp.ravel(jnp.broadcast_to(value, shape))[numbers], [lazy]
    )


def _divisor(node: Node, cell: Cell, zero: Mask | None) -> Lazy:
    """Return a known operand, with ones for zeros, which divide nothing that is used."""
    known = _harmless(node, cell)
    if zero is None or not zero.any():
        return known
    values = known.concrete()
    assert values is not None
    safe = np.where(values == 0, np.ones((), values.dtype), values)
    return Lazy.of(safe, is_static=True)
