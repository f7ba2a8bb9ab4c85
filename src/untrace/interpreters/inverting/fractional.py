"""Linear fractional functions: one value that several equations use.

`x / (1 + x)`, `1 - 2 / (exp(2 * x) + 1)` or `a * x + b * x` are solved by none of their
equations alone, but each is y = (a u + b) / (c u + d) of one value u with coefficients
that are known, and so u = (d y - b) / (a - c y), element by element. The value is the one
on which all paths to the result join; how it is computed is solved on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp

from untrace.interpreters.inverse_rules.table import total
from untrace.interpreters.inverting import rational
from untrace.interpreters.inverting.cells import Cell, Mask
from untrace.interpreters.inverting.joining import Region, joined, unknown
from untrace.interpreters.inverting.lazy import Lazy
from untrace.interpreters.inverting.network import IDENTITY, Network, Node, maker_of
from untrace.interpreters.inverting.rational import Coefficient, Rational
from untrace.interpreters.inverting.step import TWO, NotInvertible

FORMS: dict[str, Callable[..., Rational]] = {
    "add": rational.plus,
    "add_any": rational.plus,
    "sub": rational.minus,
    "neg": rational.negative,
    "mul": rational.times,
    "div": rational.over,
    "square": lambda one: rational.power(one, 2),
    "integer_pow": rational.power,
    IDENTITY: lambda one: one,
}
"""What primitives make of rational functions."""

MAX_POWER = 8
"""The greatest exponent that is multiplied out."""


def solve_fractional(network: Network) -> bool:
    """Solve a linear fractional function of one value; return whether one was solved."""
    for node in network.nodes:
        if is_rational(node) and is_stuck(node) and node.results[0].is_known:
            region = joined(node, is_rational)
            if region is None or not _is_alike(region, node.results[0]):
                continue
            try:
                form = form_of(region)[node.results[0]]
                _learn(network, node, region, _fraction(form, region))
            except NotInvertible as reason:
                if node.refusal in (TWO, ""):
                    node.refusal = str(reason)
                continue
            return True
    return False


def is_stuck(node: Node) -> bool:
    """Return whether an equation lacks several of its operands."""
    return not (node.is_open or node.is_spent) and len(list(unknown(node))) > 1


def is_rational(node: Node) -> bool:
    """Return whether an equation computes rational functions of the same kind of numbers."""
    if node.name not in FORMS:
        return False
    dtype = getattr(node.results[0].aval, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jnp.inexact):
        return False
    shape = node.results[0].shape
    if any(cell.shape != shape for cell in unknown(node)):
        return False
    return node.name != "integer_pow" or abs(node.eqn.params["y"]) <= MAX_POWER


def _is_alike(region: Region, result: Cell) -> bool:
    """Return whether each element of a result is one of the same element of the value."""
    cell = region.input
    return cell.shape == result.shape and cell.aval.dtype == result.aval.dtype


def form_of(region: Region) -> Mapping[Cell, Rational]:
    """Return what a region computes, as functions of its input."""
    forms = {region.input: rational.VARIABLE}
    for node in region.nodes:
        operands = [
            rational.constant(cell.whole)
            if cell.whole is not None
            else forms[region.first.get(cell, cell)]
            for cell in node.operands
        ]
        if node.name == "integer_pow":
            operands.append(node.eqn.params["y"])
        forms[node.results[0]] = FORMS[node.name](*operands)
    return forms


# ---- solving it --------------------------------------------------------------------


class _Fraction(NamedTuple):
    """(a u + b) / (c u + d), with the determinant a d - b c."""

    a: Coefficient
    b: Coefficient
    c: Coefficient
    d: Coefficient
    determinant: Coefficient


def _fraction(form: Rational, region: Region) -> _Fraction:
    """Return the coefficients of a linear fractional function.

    Raises:
      NotInvertible: If the function is another one, or hides its value.
    """
    name = _described(region.input)
    if form.degree > 1:
        kind = (
            "quadratic" if form.degree == 2 else f"a quotient of degree {form.degree}"
        )
        raise NotInvertible(
            f"not injective: it is {kind} in {name}; `untrace.register_inverse` says "
            "which root is meant"
        )
    (b, a, *_), (d, c, *_) = (*form.top, 0.0, 0.0), (*form.bottom, 0.0, 0.0)
    made = rational.difference(rational.product(a, d), rational.product(b, c))
    if rational.is_number(made, 0):
        raise NotInvertible(f"information lost: {name} cancels")
    values = made.concrete() if isinstance(made, Lazy) else None
    if values is not None:
        zeros = (values == 0) & ~region.input.known()
        if zeros.any():
            raise NotInvertible(
                f"information lost: {int(zeros.sum())} of {zeros.size} results do not "
                f"depend on {name}"
            )
    return _Fraction(a, b, c, d, made)


def _described(cell: Cell) -> str:
    maker = maker_of(cell)
    return "its input" if maker is None else f"the result of `{maker.name}`"


def _learn(network: Network, node: Node, region: Region, fraction: _Fraction) -> None:
    """Say how the value is computed of the result, and all between of the value."""
    y, cell = node.results[0].whole, region.input
    assert y is not None
    rest = None if cell.mask is None else ~cell.mask
    needs = [each for each in fraction if isinstance(each, Lazy)]
    if network.has_log_det:
        log_det = _log_det(fraction, cell, rest)
        network.log_dets.append((node, Lazy(log_det, [y, *needs])))

    def solved(y: Any, *values: Any) -> Any:
        a, b, c, d, _ = _filled(fraction, values)
        above = rational.line(d, y, -b)
        below = _where(rest, rational.line(-c, y, a), 1.0)
        if rational.is_number(below, -1):
            return -above
        return above if rational.is_number(below, 1) else above / below

    merge(network, region)
    if rest is None:
        network.learn(cell, Lazy(solved, [y, *needs]))
    else:
        network.learn_part(cell, rest, Lazy(solved, [y, *needs]))
    # The equations are used: none may be solved for what another one makes.
    assert cell.whole is not None
    learn_all(network, region, cell, cell.whole)
    for between in region.nodes[:-1]:
        learn_all(network, region, between.results[0], between.forward()[0])


def merge(network: Network, region: Region) -> None:
    """Let one of the equations that compute the same take the place of the others."""
    for cell, first in region.first.items():
        maker = maker_of(cell)
        if cell is first or maker is None or maker.name == IDENTITY:
            continue
        if len(maker.results) == 1:
            network.replace(maker, first)


def learn_all(network: Network, region: Region, cell: Cell, lazy: Lazy) -> None:
    """Know a value, and those that are computed in the same way."""
    for each in region.cells.get(cell, [cell]):
        network.learn(each, lazy)


def _filled(fraction: _Fraction, values: Sequence[Any]) -> list[Any]:
    """Put values in the places of the coefficients that are no numbers."""
    rest = iter(values)
    return [next(rest) if isinstance(each, Lazy) else each for each in fraction]


def _where(mask: Mask | None, value: Any, other: float) -> Any:
    return value if mask is None else jnp.where(mask, value, other)


def _log_det(fraction: _Fraction, cell: Cell, rest: Mask | None) -> Callable[..., Any]:
    """Return the function that sums log |du/dy| = log |a d - b c| - 2 log |a - c y|."""

    def log_det(y: Any, *values: Any) -> Any:
        a, _, c, _, scale = _filled(fraction, values)
        below = rational.log_abs(_where(rest, rational.line(-c, y, a), 1.0))
        terms = rational.line(-2.0, below, rational.log_abs(scale))
        if rest is not None:
            terms = jnp.where(rest, terms, 0)
        return total(terms, cell)

    return log_det
