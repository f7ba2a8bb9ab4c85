"""Elementwise functions in pieces: `jnp.where(x > 0, f(x), g(x))`.

Which piece a result comes from is not known, so each is solved as if it were the one. An
element of what is found so counts if the function leads from it back to the result: by
the conditions that were assumed there, or up to rounding, at the ends of pieces. If the
pieces tell two numbers that are both right, the function is not injective there; where it
is not, or has no such value, the inverse is NaN.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from untrace.interpreters.inverse_rules.table import ELEMENTWISE, total
from untrace.interpreters.inverting.cells import Cell
from untrace.interpreters.inverting.lazy import Lazy
from untrace.interpreters.inverting.network import Network, Node
from untrace.recovery.classifying import recorded

MAX_CONDITIONS = 3
"""Conditions that are not known, of one function: it has up to 2**3 pieces."""

N_UNITS = 8
"""Results that differ by so many units of the last place are the same."""

_CONDITIONS = frozenset(
    ["lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not", "is_finite", "select_n"]
)


class _Function(NamedTuple):
    """An elementwise function in the network.

    Attributes:
      nodes: Its equations.
      input: What it is a function of.
      output: What it makes, which is known.
      conditions: The conditions that choose its pieces.
      known: What it is given besides, and its output.
    """

    nodes: list[Node]
    input: Cell
    output: Cell
    conditions: list[Cell]
    known: dict[Cell, Lazy]


def solve_selections(network: Network) -> bool:
    """Solve a function in pieces; return whether one was solved."""
    for node in list(network.nodes):
        if node.name == "select_n" and not node.is_open and not node.is_spent:
            function = _function(node)
            if function is not None and _solve(network, node, function):
                return True
    return False


def _function(node: Node) -> _Function | None:
    """Return the function of one value that ends with a selection, if it is one."""
    output = node.results[0]
    dtype = getattr(output.aval, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jnp.floating):
        return None
    if not output.is_known or node.operands[0].is_known:
        return None
    nodes: dict[Node, None] = {}
    inputs: dict[Cell, None] = {}
    todo = [node]
    while todo:
        here = todo.pop()
        if here in nodes:
            continue
        nodes[here] = None
        for cell in here.operands:
            if cell.is_known:
                continue
            maker = next((n for n in cell.nodes if cell in n.results), None)
            if maker is not None and _is_elementwise(maker, output.shape):
                todo.append(maker)
            else:
                inputs[cell] = None
    if len(inputs) != 1:
        return None
    (cell,) = inputs
    selections = [n for n in nodes if n.name == "select_n"]
    conditions = dict.fromkeys(
        [n.operands[0] for n in selections if not n.operands[0].is_known]
    )
    is_whole = cell.shape == output.shape and cell.mask is None
    is_alike = cell.aval.dtype == dtype and all(
        len(n.operands) == 3 for n in selections
    )
    if not is_whole or not is_alike or len(conditions) > MAX_CONDITIONS:
        return None
    around = {c for n in nodes for c in (*n.operands, *n.results)}
    known = {each: each.whole for each in around if each.whole is not None}
    return _Function(list(nodes), cell, output, list(conditions), known)


def _is_elementwise(node: Node, shape: tuple[int, ...]) -> bool:
    is_one = node.name in ELEMENTWISE or node.name in _CONDITIONS
    return is_one and node.results[0].shape == shape


def _solve(network: Network, node: Node, function: _Function) -> bool:
    y = function.known[function.output]
    pieces: list[_Piece] = []
    for taken in itertools.product((False, True), repeat=len(function.conditions)):
        x = _solved(network, function, dict(zip(function.conditions, taken)))
        if x is None:
            node.refusal = "one of the values that it selects from cannot be solved"
            return False
        pieces.append(_piece(network, function, x, y, taken))
    found, *rest = reversed(pieces)
    for piece in rest:
        found = _joined(network, function, found, piece, y)
    x = Lazy(_or_nan, [found.x, found.is_right])
    network.learn(function.input, x)
    if network.has_log_det:
        network.log_dets.append((node, _log_det(network, function, x)))
    return True


# ---- pieces --------------------------------------------------------------------------


class _Piece(NamedTuple):
    """What is found.

    Attributes:
      x: Values.
      is_right: Where the function leads from them to the result.
    """

    x: Lazy
    is_right: Lazy


def _solved(
    network: Network, function: _Function, taken: Mapping[Cell, bool]
) -> Lazy | None:
    """Solve a piece: of each selection one operand alone counts."""
    inner, cells = _copied(network, function, taken)
    inner.solve([cells[function.input]])
    return cells[function.input].whole


def _applied(network: Network, function: _Function, x: Lazy) -> tuple[Lazy, list[Lazy]]:
    """Apply the function; return the result and the conditions."""
    inner, cells = _copied(network, function, {})
    inner.learn(cells[function.input], x)
    wanted = [cells[function.output], *[cells[c] for c in function.conditions]]
    inner.solve(wanted)
    made, *conditions = [cell.whole for cell in wanted if cell.whole is not None]
    return made, conditions


def _copied(
    network: Network, function: _Function, taken: Mapping[Cell, bool]
) -> tuple[Network, dict[Cell, Cell]]:
    """Return a network of the function alone; without `taken` its output is not known."""
    inner = network.like()
    inner.has_log_det = False
    cells: dict[Cell, Cell] = {}

    def copy(cell: Cell) -> Cell:
        if cell not in cells:
            cells[cell] = Cell(cell.aval)
            if cell in function.known and (taken or cell is not function.output):
                inner.learn(cells[cell], function.known[cell])
        return cells[cell]

    copy(function.input)
    for node in function.nodes:
        which = taken.get(node.operands[0]) if node.name == "select_n" else None
        if which is not None:
            inner.tie(copy(node.operands[1 + which]), copy(node.results[0]))
        else:
            operands, results = map(copy, node.operands), map(copy, node.results)
            inner.add_node(Node(node.eqn, list(operands), list(results), node.parent))
    return inner, cells


def _piece(
    network: Network, function: _Function, x: Lazy, y: Lazy, taken: Sequence[bool]
) -> _Piece:
    made, conditions = _applied(network, function, x)

    def is_right(x: Any, y: Any, made: Any, *conditions: Any) -> Any:
        as_assumed = [c if t else ~c for c, t in zip(conditions, taken)]
        is_near = jnp.abs(made - y) <= _half(x) * jnp.maximum(jnp.abs(x), jnp.abs(y))
        return _is_close(made, y) | functools.reduce(operator.and_, as_assumed, is_near)

    return _Piece(x, Lazy(is_right, [x, y, made, *conditions]))


def _joined(
    network: Network, function: _Function, one: _Piece, other: _Piece, y: Lazy
) -> _Piece:
    """Join two pieces; where both are right they have to tell the same number."""
    between = Lazy(lambda one, other: (one + other) / 2, [one.x, other.x])
    made, _ = _applied(network, function, between)

    def is_right(one: Any, right: Any, other: Any, also: Any, y: Any, made: Any) -> Any:
        is_same = jnp.abs(one - other) <= _half(one) * jnp.abs(other)
        is_same = is_same | _is_close(made, y)
        return jnp.where(right & also, is_same, right | also)

    needs = [one.x, one.is_right, other.x, other.is_right, y, made]
    x = Lazy(lambda one, right, other: jnp.where(right, one, other), needs[:3])
    return _Piece(x, Lazy(is_right, needs))


def _is_close(one: Any, other: Any) -> Any:
    """Return where two numbers are the same up to rounding."""
    rtol = N_UNITS * float(jnp.finfo(jnp.result_type(one)).eps)
    return jnp.abs(one - other) <= rtol * jnp.abs(other)


def _half(value: Any) -> float:
    """Return half the digits of a number, as a relative error."""
    return float(jnp.finfo(jnp.result_type(value)).eps) ** 0.5


def _or_nan(x: Any, is_right: Any) -> Any:
    return jnp.where(is_right, x, jnp.nan)


def _log_det(network: Network, function: _Function, x: Lazy) -> Lazy:
    """Return log |det|: the function is differentiated at what was found."""
    needs = [
        lazy for cell, lazy in function.known.items() if cell is not function.output
    ]

    def log_det(x: Any, *_: Any) -> Any:
        @recorded
        def in_pieces(x: Any) -> Any:
            return _applied(network, function, Lazy.of(x))[0].value

        _, slope = jax.jvp(in_pieces, (x,), (jnp.ones_like(x),))
        terms = jnp.where(jnp.isnan(x), x, jnp.log(jnp.abs(slope)))
        return -total(terms, function.input)

    return Lazy(log_det, [x, *needs])
