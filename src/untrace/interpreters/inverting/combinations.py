"""Knowledge followed element by element through sums of elements.

`x.at[i].add(v)` keeps the elements that it does not touch, and shows v where x is known. A
product with a matrix that has zeros, as autoregressive networks have them, needs only those
elements of its operand that do not meet a zero. Running sums need the elements before.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace.interpreters.inverting.cells import Cell, Mask
from untrace.interpreters.inverting.lazy import Lazy
from untrace.interpreters.inverting.network import Network, Node, evaluated

COMBINING = {"scatter-add", "scatter-sub", "scatter-mul"}
"""`x.at[i].add(v)` and its like."""

EVALUATED = "evaluated in part"
"""Marks an equation that tells nothing about its operands any more."""


def follow_combining(network: Network, node: Node) -> bool:
    """Learn the elements of both sides that are not touched, and those that are added."""
    operand, indices, update = node.operands
    result = node.results[0]
    where = None if indices.whole is None else indices.whole.concrete()
    if where is None or not (result.is_touched or operand.is_touched):
        return False
    places = _places(network, node, where)
    alone = places == 0
    added = np.append(False, update.known())
    told = alone | added[np.maximum(places, 0)]
    news = _learn_combined(network, node, operand.known() & told)
    if not operand.is_known:
        mask = alone & result.known()
        if (mask & ~operand.known()).any():
            news |= bool(network.learn_part(operand, mask, result.filled()))
    if node.name == "scatter-add" and operand.is_known and not update.is_known:
        news |= _learn_update(network, node, places)
    return news


def _learn_combined(network: Network, node: Node, mask: Mask) -> bool:
    """Learn the elements of a result of which the parts are known."""
    (operand, indices, update), (result,) = node.operands, node.results
    if result.is_known or not (mask & ~result.known()).any():
        return False
    lazy = operand.filled()
    if update.is_touched and indices.whole is not None:
        lazy = evaluated(node.eqn, [lazy, indices.whole, update.filled()])[0]
    return bool(network.learn_part(result, mask, lazy))


def _places(network: Network, node: Node, where: Mask) -> Mask:
    """Return for each element which one of the update is added to it, counted from 1.

    It is 0 where none is, and -1 where several are.
    """
    key = "places", id(node)
    if key not in network.memory:
        operand, _, update = node.operands
        params = node.eqn.params
        numbers = np.arange(1, update.size + 1, dtype=np.int32).reshape(update.shape)

        def scattered(scatter: Any, values: Mask) -> Mask:
            zeros = np.zeros(operand.shape, np.int32)
            names = params["dimension_numbers"]
            return np.asarray(scatter(zeros, where, values, names, mode=params["mode"]))

        with jax.ensure_compile_time_eval():
            count = scattered(jax.lax.scatter_add, np.ones_like(numbers))
            made = scattered(jax.lax.scatter, numbers)
        network.memory[key] = np.where(count > 1, -1, made)
    return network.memory[key]


def _learn_update(network: Network, node: Node, places: Mask) -> bool:
    operand, _, update = node.operands
    result = node.results[0]
    sources = np.flatnonzero((places > 0) & result.known())
    targets = places.ravel()[sources] - 1
    mask = np.zeros(update.size, bool)
    mask[targets] = True
    mask = mask.reshape(update.shape)
    before = operand.whole
    if before is None or not (mask & ~update.known()).any():
        return False
    aval = update.aval

    def taken(y: Any, before: Any) -> Any:
        added = jnp.ravel(y)[sources] - jnp.ravel(before)[sources]
        flat = jnp.zeros(mask.size, aval.dtype).at[targets].set(added)
        return flat.reshape(aval.shape)

    lazy = Lazy(taken, [result.filled(), before])
    return bool(network.learn_part(update, mask, lazy))


# ---- running values ----------------------------------------------------------------

RUNNING = {"cumsum", "cumprod", "cumlogsumexp", "cummax", "cummin"}
"""Each element depends on those before it alone."""


def follow_running(network: Network, node: Node) -> bool:
    """Learn the first elements of a running sum, where those of its operand are known."""
    operand, result = node.operands[0], node.results[0]
    if operand.is_known or operand.mask is None or result.is_known:
        return False
    axis, is_back = node.eqn.params["axis"], node.eqn.params["reverse"]
    known = np.flip(operand.mask, axis) if is_back else operand.mask
    known = np.logical_and.accumulate(known, axis)
    mask = np.flip(known, axis) if is_back else known
    if not (mask & ~result.known()).any():
        return False
    lazy = evaluated(node.eqn, [operand.filled()])[0]
    return bool(network.learn_part(result, mask, lazy))


# ---- products with zeros -----------------------------------------------------------


def follow_product(network: Network, node: Node) -> bool:
    """Learn the elements of a product that depend on known elements alone."""
    result = node.results[0]
    unknown = [i for i, cell in enumerate(node.operands) if not cell.is_known]
    if len(unknown) != 1 or result.is_known:
        return False
    cell, other = node.operands[unknown[0]], node.operands[1 - unknown[0]]
    zeros = _zeros(other)
    if zeros is None:
        return False
    counted = [~cell.known(), ~zeros]
    if unknown[0] == 1:
        counted.reverse()
    params = {**node.eqn.params, "preferred_element_type": np.dtype(np.float32)}
    with jax.ensure_compile_time_eval():
        hidden = node.eqn.primitive.bind(
            *[jnp.asarray(each, jnp.float32) for each in counted],
            **node.eqn.primitive.get_bind_params(params),
        )
    mask = np.asarray(hidden) == 0
    if not (mask & ~result.known()).any():
        return False
    lazy = evaluated(node.eqn, [each.filled() for each in node.operands])[0]
    network.memory[EVALUATED, id(node)] = True
    return bool(network.learn_part(result, mask, lazy))


def _zeros(cell: Cell) -> Mask | None:
    """Return which elements are known to be zero: constants, or products with a mask."""
    values = None if cell.whole is None else cell.whole.concrete()
    if values is not None:
        return values == 0
    maker = next((node for node in cell.nodes if cell in node.results), None)
    if maker is None or maker.name != "mul":
        return None
    for factor in maker.operands:
        values = None if factor.whole is None else factor.whole.concrete()
        if values is not None:
            return np.broadcast_to(values == 0, cell.shape)
    return None
