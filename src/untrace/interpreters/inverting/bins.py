"""Functions that are rational between knots are solved in each bin between two of them.

What depends on comparisons alone is computed for one number in each bin: there the function
is a quotient of polynomials with coefficients that are known, and its equation with the
result has up to two roots. The one that lies in its own bin is the inverse. It is NaN if no
bin has one, if two tell different numbers, or if the function does not lead back from it.

All bins are solved: for k knots this costs k times as much as the function.

Source: the roots are those of Durkan et al. 2019, Neural Spline Flows, in the form that does
not cancel; polynomials are those of the distance to the lower knot of the bin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from untrace.interpreters.inverse_rules.table import total
from untrace.interpreters.inverting import rational
from untrace.interpreters.inverting.cells import Cell
from untrace.interpreters.inverting.fractional import FORMS, learn_all, merge
from untrace.interpreters.inverting.lazy import Lazy
from untrace.interpreters.inverting.network import Network, Node, evaluated
from untrace.interpreters.inverting.rational import Coefficient, Polynomial, Rational
from untrace.interpreters.inverting.splines import (
    CUTS,
    Spline,
    cut_at,
    form_of_node,
    spline_of,
)
from untrace.interpreters.inverting.step import NotInvertible
from untrace.recovery.classifying import recorded

N_UNITS = 8
"""A root may lie outside of its bin by so many units of the last place."""


def solve_splines(network: Network) -> bool:
    """Solve a function that is rational between knots; return whether one was solved."""
    for node in network.nodes:
        if not _is_start(node):
            continue
        try:
            spline = spline_of(node)
        except NotInvertible as reason:
            node.refusal = str(reason)
            continue
        if spline is not None:
            _learn(network, node, spline)
            return True
    return False


def _is_start(node: Node) -> bool:
    if node.name not in (*FORMS, *CUTS, "select_n") or node.is_open or node.is_spent:
        return False
    dtype = getattr(node.results[0].aval, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jnp.floating):
        return False
    n_unknown = sum(not cell.is_known for cell in node.operands)
    return node.results[0].is_known and n_unknown > 1


def _learn(network: Network, node: Node, spline: Spline) -> None:
    """Say how the number is computed of the result, and all between of the number."""
    region, y = spline.region, spline.output.whole
    assert y is not None
    cell = region.input
    knots = [values for each in spline.knots for values in _needs(each.form)]
    needs = [y, *spline.known.values(), *[each.values for each in spline.knots], *knots]
    solved = Lazy(lambda y, *_: _solved(spline, y, network.is_principal), needs)
    x = Lazy(lambda pair: pair[0], [solved])
    merge(network, region)
    for each in region.cells.get(cell, [cell]):
        network.learn(each, x)
    for between in region.nodes[:-1]:
        for result, lazy in zip(between.results, between.forward()):
            learn_all(network, region, result, lazy)
    if network.has_log_det:
        log_det = Lazy(lambda pair: -total(pair[1], cell), [solved])
        network.log_dets.append((node, log_det))


def _needs(form: Rational) -> list[Lazy]:
    return [each for each in (*form.top, *form.bottom) if isinstance(each, Lazy)]


# ---- bins ----------------------------------------------------------------------------


class _Quotient(NamedTuple):
    """(p0 + p1 t + p2 t**2) / (q0 + q1 t + q2 t**2) of the distance t to a center.

    Attributes:
      p: Coefficients of the numerator.
      q: Coefficients of the denominator.
      value: The function at the sample that was computed with.
      cuts: Polynomials that are zero where a value begins to be cut off.
    """

    p: Sequence[Any]
    q: Sequence[Any]
    value: Any
    cuts: Sequence[Sequence[Any]]

    def equation(self, y: Any) -> list[Any]:
        """Return the coefficients of its equation with a result, from degree 0 on."""
        return [p - y * q for p, q in zip(self.p, self.q)]

    def log_slope(self, t: Any) -> Any:
        """Return log |slope|."""
        (p0, p1, p2), (q0, q1, q2) = self.p, self.q
        above, below = p0 + t * (p1 + t * p2), q0 + t * (q1 + t * q2)
        slope = (p1 + 2 * t * p2) * below - above * (q1 + 2 * t * q2)
        return jnp.log(jnp.abs(slope)) - 2 * jnp.log(jnp.abs(below))


class _Bins(NamedTuple):
    """The intervals between knots, along the first axis, for each number.

    Attributes:
      low: The lower knots; the first is minus infinity.
      high: The upper knots.
      center: What numbers of a bin are counted from, its lower knot if there is one.
      sample: A number of each bin.
    """

    low: Any
    high: Any
    center: Any
    sample: Any


def _solved(spline: Spline, y: Any, is_principal: bool) -> list[Any]:
    """Return the number, and log |slope| of the function at it."""
    bins = _bins(spline)
    which, is_second, is_right = _chosen(spline, bins, y, is_principal)

    def taken(values: Any) -> Any:
        return jnp.take_along_axis(values, which[None], 0)[0]

    center = taken(bins.center)
    quotient = _quotient(spline, taken(bins.sample), center)
    first, second = _roots(*quotient.equation(y))
    above, below = [jnp.where(is_second, b, a) for a, b in zip(first, second)]
    t = above / below
    x = center + t
    made = _quotient(spline, jax.lax.stop_gradient(x), center).value
    scale = jnp.maximum(jnp.abs(x), jnp.abs(y))
    is_right &= jnp.abs(made - y) <= float(jnp.finfo(y.dtype).eps) ** 0.5 * scale
    return [jnp.where(is_right, each, jnp.nan) for each in (x, quotient.log_slope(t))]


def _bins(spline: Spline) -> _Bins:
    """Return the bins; their knots are those of all comparisons, in order."""
    shape = spline.region.input.shape
    dtype = spline.region.input.aval.dtype
    knots = [
        _crossing(each.form, each.spread(each.values.value)) for each in spline.knots
    ]
    wide = [jnp.broadcast_to(each, (len(each), *shape)) for each in knots]
    ends = jnp.full((1, *shape), jnp.inf, dtype)
    inner = jnp.sort(jnp.concatenate(wide).astype(dtype), axis=0)
    edges = jax.lax.stop_gradient(jnp.concatenate([-ends, inner, ends]))
    low, high = edges[:-1], edges[1:]
    has_low, has_high = jnp.isfinite(low), jnp.isfinite(high)
    center = jnp.where(has_low, low, jnp.where(has_high, high, 0))
    beside = center + jnp.where(has_low, 1, -1) * (1 + jnp.abs(center))
    middle = center + (high - center) / 2
    return _Bins(low, high, center, jnp.where(has_low & has_high, middle, beside))


def _crossing(form: Rational, value: Any) -> Any:
    """Return where a linear fractional function has a value."""
    (b, a, *_), (d, c, *_) = [
        [_value(each) for each in (*polynomial, 0.0, 0.0)] for polynomial in form
    ]
    above, below = rational.line(d, value, -b), rational.line(-c, value, a)
    return above if rational.is_number(below, 1) else above / below


def _value(coefficient: Coefficient) -> Any:
    return coefficient.value if isinstance(coefficient, Lazy) else coefficient


def _quotient(spline: Spline, sample: Any, center: Any) -> _Quotient:
    """Return what the function is where no knot lies between a number and the sample."""
    region = spline.region
    lazies = {region.input: Lazy.of(sample)}
    forms = {region.input: Rational((Lazy.of(center), 1.0), rational.ONE)}

    def values(cell: Cell) -> Lazy:
        return spline.known.get(cell) or lazies[region.first.get(cell, cell)]

    cuts: list[Rational] = []
    for node in region.nodes:
        made = evaluated(node.eqn, [values(cell) for cell in node.operands])
        lazies |= dict(zip(node.results, made))
        for result in spline.smooth.intersection(node.results):
            operands = [
                forms.get(region.first.get(cell, cell))
                or rational.constant(values(cell))
                for cell in node.operands
            ]
            forms[result] = form_of_node(node, operands, values)
            if node in spline.guards:
                cuts += cut_at(node, operands)
    p, q = [_filled(each, sample) for each in forms[spline.output]]
    zeros = [_filled(each.top, sample) for each in cuts]
    return _Quotient(p, q, lazies[spline.output].value, zeros)


def _filled(polynomial: Polynomial, like: Any) -> list[Any]:
    """Return the coefficients up to degree 2, as arrays."""
    rest = [0.0] * (3 - len(polynomial))
    return [_full(each, like) for each in (*polynomial, *rest)]


def _full(coefficient: Coefficient, like: Any) -> Any:
    return jnp.broadcast_to(_value(coefficient), like.shape).astype(like.dtype)


def _roots(c: Any, b: Any, a: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return the roots of a t**2 + b t + c as numerators and denominators.

    Nothing cancels in them. Where there is none they are NaN.
    """
    square = b * b - 4 * a * c
    is_single = square == 0  # a root has no derivative there
    root = jnp.where(is_single, 0, jnp.sqrt(jnp.where(is_single, 1, square)))
    q = -(b + jnp.where(b < 0, -root, root)) / 2
    return (c, q), (q, a)


def _chosen(
    spline: Spline, bins: _Bins, y: Any, is_principal: bool
) -> tuple[Any, Any, Any]:
    """Return the bin of each number, whether it is the second root, and if it is right."""

    @recorded
    def in_bin(low: Any, high: Any, center: Any, sample: Any) -> Any:
        quotient = _quotient(spline, sample, center)
        equation = quotient.equation(y)
        units = N_UNITS * jnp.finfo(y.dtype).eps
        is_flat = jnp.abs(equation[0]) <= units * jnp.abs(y * quotient.q[0])
        for each in equation[1:]:
            is_flat &= each == 0
        (c, q), (r, a) = _roots(*equation)
        is_cut = _is_cut(quotient, low, high, center)
        return center + c / q, center + r / a, is_flat, is_cut

    first, second, is_flat, is_cut = jax.vmap(in_bin)(*bins)
    x = jnp.stack([first, second])
    outside = jnp.maximum(bins.low - x, x - bins.high)
    outside = jnp.where(jnp.isnan(outside), jnp.inf, jnp.maximum(outside, 0))
    if is_principal:  # bins between two knots go before the others
        least = jnp.finfo(y.dtype).tiny
        is_open = ~(jnp.isfinite(bins.low) & jnp.isfinite(bins.high))
        outside = jnp.where(is_open, jnp.maximum(outside, least), outside)
    n_bins = len(bins.low)
    flat = lambda values: values.reshape(2 * n_bins, *values.shape[2:])
    best = jnp.argmin(flat(outside), axis=0)

    def taken(values: Any) -> Any:
        return jnp.take_along_axis(flat(values), best[None], 0)[0]

    found, scale = taken(x), taken(jnp.abs(x) + jnp.abs(bins.center))
    eps = float(jnp.finfo(y.dtype).eps)
    is_other = (outside == 0) & (jnp.abs(x - found) > eps**0.5 * scale)
    is_flat = (is_flat | is_cut) & (bins.low < bins.high)
    is_single = ~(flat(is_other).any(0) | is_flat.any(0))
    is_right = is_single & (taken(outside) <= N_UNITS * eps * scale)
    return best % n_bins, best >= n_bins, is_right


def _is_cut(quotient: _Quotient, low: Any, high: Any, center: Any) -> Any:
    """Return where a value is cut off in a part of the bin that is more than rounding."""
    width = jnp.where(jnp.isfinite(high - low), high - low, 1 + jnp.abs(center))
    slack = float(jnp.finfo(low.dtype).eps) ** 0.5 * width
    is_cut = jnp.zeros(low.shape, bool)
    for polynomial in quotient.cuts:
        for above, below in _roots(*polynomial):
            x = center + above / below
            is_cut |= (x > low + slack) & (x < high - slack)
    return is_cut
