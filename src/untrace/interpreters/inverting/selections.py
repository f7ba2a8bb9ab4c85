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
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from untrace.interpreters.inverse_rules.table import ELEMENTWISE, total
from untrace.interpreters.inverting.cells import Cell
from untrace.interpreters.inverting.lazy import Lazy
from untrace.interpreters.inverting.network import IDENTITY, Network, Node
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
    pieces: list[_Piece] = []
    for taken in itertools.product((True, False), repeat=len(function.conditions)):
        piece = _piece(network, function, taken)
        if piece is None:
            node.refusal = "one of the values that it selects from cannot be solved"
            return False
        pieces.append(piece)
    is_exact = functools.reduce(_or, [piece.is_exact for piece in pieces])
    if not _is_regular(function):
        pieces = [_made_safe(network, function, each, is_exact) for each in pieces]
    found = functools.reduce(
        lambda one, other: _joined(network, function, one, other), pieces
    )
    network.learn(function.input, Lazy(_or_nan, [found.safe, found.is_right]))
    if network.has_log_det:
        terms = Lazy(_or_nan, [found.log_slope, found.is_right])
        log_det = Lazy(lambda terms: -total(terms, function.input), [terms])
        network.log_dets.append((node, log_det))
    return True


# ---- pieces --------------------------------------------------------------------------


class _Piece(NamedTuple):
    """What is found if certain conditions hold.

    Attributes:
      taken: Whether each condition holds.
      x: Values.
      is_exact: Where the conditions hold for them as assumed.
      is_right: Where the function leads from them to the result: there, or up to rounding.
      safe: The values where they count; elsewhere some at which derivatives are finite.
      log_slope: log |dy/dx| at them.
    """

    taken: tuple[bool, ...]
    x: Lazy
    is_exact: Lazy
    is_right: Lazy
    safe: Lazy
    log_slope: Lazy


def _piece(
    network: Network, function: _Function, taken: tuple[bool, ...]
) -> _Piece | None:
    """Solve a piece: of each selection one operand alone counts."""
    y = function.known[function.output]
    x = _solved(network, function, y, taken)
    if x is None:
        return None
    made, *conditions = _applied(network, function, x)

    def is_exact(x: Any, y: Any, made: Any, *conditions: Any) -> Any:
        as_assumed = [c if t else ~c for c, t in zip(conditions, taken)]
        is_near = jnp.abs(made - y) <= _half(x) * jnp.maximum(jnp.abs(x), jnp.abs(y))
        return functools.reduce(operator.and_, as_assumed, is_near)

    exact = Lazy(is_exact, [x, y, made, *conditions])
    is_close = Lazy(_is_close, [made, y])
    slope = _log_slope(network, function, x, taken)
    return _Piece(taken, x, exact, _or(is_close, exact), x, slope)


def _made_safe(
    network: Network, function: _Function, piece: _Piece, is_exact: Lazy
) -> _Piece:
    """Solve a piece again, for other results where it does not count.

    Its slope may be infinite there: zero times it would be NaN in a derivative.
    """
    y = function.known[function.output]
    images = [
        _applied(network, function, Lazy(_full_of(x), [y]), piece.taken)[0]
        for x in (SAFE, -SAFE)
    ]

    def shown(y: Any, exact: Any, right: Any, any_exact: Any, *images: Any) -> Any:
        other = jnp.where(jnp.isfinite(images[1]), images[1], SAFE)
        other = jnp.where(jnp.isfinite(images[0]), images[0], other)
        return jnp.where(exact | (right & ~any_exact), y, other)

    needs = [y, piece.is_exact, piece.is_right, is_exact, *images]
    safe = _solved(network, function, Lazy(shown, needs), piece.taken) or piece.x
    slope = _log_slope(network, function, safe, piece.taken)
    return piece._replace(safe=safe, log_slope=slope)


def _or(one: Lazy, other: Lazy) -> Lazy:
    return Lazy(operator.or_, [one, other])


SAFE = 0.5625
"""A number at which nearly every function and its derivative are finite, not a special one."""


def _full_of(number: float) -> Callable[[Any], Any]:
    return lambda y: jnp.full_like(y, number)


def _is_regular(function: _Function) -> bool:
    """Return whether what a function does has finite slopes both ways."""
    return all(
        node.name in REGULAR
        or node.name in _CONDITIONS
        or (node.name == "div" and node.operands[1].is_known)
        for node in function.nodes
    )


REGULAR = {"add", "add_any", "sub", "mul", "neg", IDENTITY}
"""Their inverses have finite slopes, in each operand."""


def _copied(
    network: Network, function: _Function, taken: Sequence[bool]
) -> tuple[Network, dict[Cell, Cell]]:
    """Return a network of the function alone, and its values by those of the original.

    Args:
      network: Around the function.
      function: The function; its output will not be known.
      taken: Whether each condition holds; empty if they are computed.
    """
    inner = network.like()
    inner.has_log_det = False
    cells: dict[Cell, Cell] = {}
    choices = dict(zip(function.conditions, taken))

    def copy(cell: Cell) -> Cell:
        if cell not in cells:
            cells[cell] = Cell(cell.aval)
            if cell in function.known and cell is not function.output:
                inner.learn(cells[cell], function.known[cell])
        return cells[cell]

    copy(function.input)
    for node in function.nodes:
        which = choices.get(node.operands[0]) if node.name == "select_n" else None
        if which is not None:
            inner.tie(copy(node.operands[1 + which]), copy(node.results[0]))
        else:
            operands, results = map(copy, node.operands), map(copy, node.results)
            inner.add_node(Node(node.eqn, list(operands), list(results), node.parent))
    return inner, cells


def _solved(
    network: Network, function: _Function, y: Lazy, taken: Sequence[bool]
) -> Lazy | None:
    """Solve a piece for its input."""
    inner, cells = _copied(network, function, taken)
    inner.learn(cells[function.output], y)
    inner.solve([cells[function.input]])
    return cells[function.input].whole


def _applied(
    network: Network, function: _Function, x: Lazy, taken: Sequence[bool] = ()
) -> list[Lazy]:
    """Apply the function, or a piece of it; return the result, and the conditions."""
    inner, cells = _copied(network, function, taken)
    inner.learn(cells[function.input], x)
    conditions = () if taken else function.conditions
    wanted = [cells[cell] for cell in (function.output, *conditions)]
    inner.solve(wanted)
    return [cell.whole for cell in wanted if cell.whole is not None]


def _joined(
    network: Network, function: _Function, one: _Piece, other: _Piece
) -> _Piece:
    """Join two pieces; where both are exact they have to tell the same number."""
    y = function.known[function.output]
    between = Lazy(lambda one, other: (one + other) / 2, [one.x, other.x])
    made, *_ = _applied(network, function, between)
    flags = [one.is_exact, one.is_right, other.is_exact, other.is_right]

    def is_right(*values: Any) -> Any:
        exact, right, also, either, one, other, y, made = values
        is_same = jnp.abs(one - other) <= _half(one) * jnp.abs(other)
        is_same = is_same | _is_close(made, y)
        return jnp.where(exact & also, is_same, right | either)

    is_first = Lazy(lambda exact, right, also: exact | (right & ~also), flags[:3])
    x, safe, slope = [
        Lazy(jnp.where, [is_first, a, b])
        for a, b in (
            (one.x, other.x),
            (one.safe, other.safe),
            (one.log_slope, other.log_slope),
        )
    ]
    exact = _or(one.is_exact, other.is_exact)
    right = Lazy(is_right, [*flags, one.x, other.x, y, made])
    return _Piece((), x, exact, right, safe, slope)


def _is_close(one: Any, other: Any) -> Any:
    """Return where two numbers are the same up to rounding."""
    rtol = N_UNITS * float(jnp.finfo(jnp.result_type(one)).eps)
    return jnp.abs(one - other) <= rtol * jnp.abs(other)


def _half(value: Any) -> float:
    """Return half the digits of a number, as a relative error."""
    return float(jnp.finfo(jnp.result_type(value)).eps) ** 0.5


def _or_nan(value: Any, is_right: Any) -> Any:
    return jnp.where(is_right, value, jnp.nan)


def _log_slope(
    network: Network, function: _Function, x: Lazy, taken: Sequence[bool]
) -> Lazy:
    """Return log |dy/dx|: the piece is differentiated at what was found."""
    needs = [
        lazy for cell, lazy in function.known.items() if cell is not function.output
    ]

    def log_slope(x: Any, *_: Any) -> Any:
        @recorded
        def piece(x: Any) -> Any:
            return _applied(network, function, Lazy.of(x), taken)[0].value

        _, slope = jax.jvp(piece, (x,), (jnp.ones_like(x),))
        return jnp.log(jnp.abs(slope))

    return Lazy(log_slope, [x, *needs])
