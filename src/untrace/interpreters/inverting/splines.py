"""Functions that are rational between knots: which ones are, and where their knots are.

A spline compares each number with knots, which are known, and reads off what belongs to its
bin; within a bin it is a quotient of polynomials of the number. Values of three kinds are
told apart: *smooth* ones, which are rational functions of the number; smooth ones that are
*moved*, to be compared with all knots at once; and *steps*, which depend on the number by
comparisons alone, and are constant between knots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.interpreters.inverse_rules.calls import body_of
from untrace.interpreters.inverting import rational
from untrace.interpreters.inverting.body import unknown_value
from untrace.interpreters.inverting.cells import Cell
from untrace.interpreters.inverting.elements import MOVES
from untrace.interpreters.inverting.fractional import FORMS
from untrace.interpreters.inverting.joining import Region, joined, unknown
from untrace.interpreters.inverting.lazy import Lazy
from untrace.interpreters.inverting.network import IDENTITY, Node, maker_of
from untrace.interpreters.inverting.owners import NONE, Owners, owners_of
from untrace.interpreters.inverting.rational import Coefficient, Polynomial, Rational
from untrace.interpreters.inverting.step import NotInvertible
from untrace.interpreters.sub_programs import split

MAX_DEGREE = 2
"""Roots of polynomials of this degree are computed."""

COMPARISONS = {"lt", "le", "gt", "ge", "eq", "ne"}
CUTS = {"max", "min", "clamp", "abs"}
SEARCH = "searchsorted"

Values = Callable[[Cell], Lazy]
"""A value of the function, where no knot is passed."""


class Knots(NamedTuple):
    """Values with which a function of degree one is compared.

    Attributes:
      form: The function.
      values: What it is compared with.
      spread: Returns them as an array of a knot for each number, for several knots.
    """

    form: Rational
    values: Lazy
    spread: Callable[[Any], Any]


class Spline(NamedTuple):
    """A function that is rational between knots.

    Attributes:
      region: Its equations, and what it is a function of.
      output: What it makes.
      smooth: The values that are rational functions between knots.
      knots: Where it may have them.
      guards: Equations that cut a value off at what depends on the bin, or a value whose
        coefficients do: in no bin they may do so in a part of it alone.
      known: What it is given besides.
    """

    region: Region
    output: Cell
    smooth: frozenset[Cell]
    knots: list[Knots]
    guards: frozenset[Node]
    known: Mapping[Cell, Lazy]


class _NoSpline(Exception):
    """A function is of another kind."""


def spline_of(node: Node) -> Spline | None:
    """Return the function that ends with an equation, if it is rational between knots.

    Raises:
      NotInvertible: If it is, but is not solved.
    """
    region = joined(node, lambda _: True, _whole_maker)
    output = node.results[0]
    if region is None or region.input.mask is not None:
        return None
    cell = region.input
    if cell.shape != output.shape or cell.aval.dtype != output.aval.dtype:
        return None
    reader = _Reader(region)
    try:
        for each in region.nodes:
            reader.read(each)
    except _NoSpline:
        return None
    form = reader.forms.get(output)
    if node.name == "select_n" and not reader.forms.keys() >= _branches(node, region):
        return None  # one of them tells nothing of the number
    if form is None or not reader.knots or form.degree < 1:
        return None
    if form.degree > MAX_DEGREE:
        raise NotInvertible(
            f"no formula for its inverse: between knots it is a quotient of degree "
            f"{form.degree}; `untrace.register_inverse` gives one"
        )
    around = {cell for each in region.nodes for cell in each.operands}
    known = {cell: cell.whole for cell in around if cell.whole is not None}
    smooth, guards = frozenset(reader.forms), frozenset(reader.guards)
    return Spline(region, output, smooth, reader.knots, guards, known)


def _branches(node: Node, region: Region) -> set[Cell]:
    return {region.first.get(cell, cell) for cell in node.operands[1:]}


def _whole_maker(cell: Cell) -> Node | None:
    """Return what makes a value; of a search the call, although it was entered."""
    node = maker_of(cell)
    if node is None or node.name != IDENTITY or node.parent is None:
        return node
    is_whole = cell in node.parent.results and is_search(node.parent)
    return node.parent if is_whole else node


def is_search(node: Node) -> bool:
    """Return whether an equation is a call of `jnp.searchsorted`."""
    if node.eqn is None or str(node.eqn.params.get("name")) != SEARCH:
        return False
    body = body_of(node.eqn)
    if body is None:
        return False
    return jaxapi.is_made_by_jax(split(body)[0].debug_info)


# ---- what equations make of rational functions ---------------------------------------


def form_of_node(node: Node, operands: Sequence[Rational], values: Values) -> Rational:
    """Return a smooth result as a rational function, where no knot is passed.

    Args:
      node: The equation.
      operands: Its operands; what is no number of the function is a constant.
      values: Its values between these knots.
    """
    if node.name in FORMS:
        powers = [node.eqn.params["y"]] if node.name == "integer_pow" else []
        return FORMS[node.name](*operands, *powers)
    known = [values(cell) for cell in node.operands]
    if node.name == "select_n":
        return _selected(known[0], operands[1], operands[2])
    if node.name == "abs":
        is_negative = Lazy(lambda value: value < 0, known)
        return _selected(is_negative, operands[0], rational.negative(operands[0]))
    if node.name in ("max", "min"):
        is_less = Lazy(jnp.less if node.name == "max" else jnp.greater, known)
        return _selected(is_less, *operands)
    if node.name == "clamp":
        low, form, high = operands
        above = _selected(Lazy(jnp.greater, known[1:]), form, high)
        return _selected(Lazy(jnp.less, [known[1], known[0]]), above, low)
    return operands[0]


def cut_at(node: Node, operands: Sequence[Rational]) -> list[Rational]:
    """Return functions that are zero where an equation begins to cut a value off."""
    if node.name == "abs":
        return [operands[0]]
    if node.name == "clamp":
        low, form, high = operands
        return [rational.minus(form, low), rational.minus(form, high)]
    return [rational.minus(*operands)]


def _selected(condition: Lazy, one: Rational, other: Rational) -> Rational:
    """Return the other function where a condition holds."""

    def chosen(one: Polynomial, other: Polynomial) -> Polynomial:
        pairs = zip_longest(one, other, fillvalue=0.0)
        return tuple([_either(condition, a, b) for a, b in pairs])

    return Rational(chosen(one.top, other.top), chosen(one.bottom, other.bottom))


def _either(condition: Lazy, one: Coefficient, other: Coefficient) -> Coefficient:
    if one is other or (isinstance(one, float) and one == other):
        return one
    needs = [each for each in (one, other) if isinstance(each, Lazy)]

    def chosen(condition: Any, *values: Any) -> Any:
        rest = iter(values)
        a, b = [next(rest) if isinstance(c, Lazy) else c for c in (one, other)]
        return jnp.where(condition, b, a)

    return Lazy(chosen, [condition, *needs])


# ---- reading it ----------------------------------------------------------------------


class _Reader:
    """What is found out about the values of a region, equation by equation.

    Attributes:
      forms: Smooth values, by what they are between knots.
      bases: Smooth values, also moved ones, in the same way.
      crossings: The same, by functions of which one passes whatever they pass: a value that
        is cut off passes nothing beyond. There are none if coefficients change at knots.
      plain: Those that are one function everywhere.
      owners: Of each value, which element of the input its elements depend on.
      knots: Where comparisons change.
      guards: See `Spline`.
    """

    def __init__(self, region: Region) -> None:
        cell = region.input
        self.region = region
        self.forms = {cell: rational.VARIABLE}
        self.bases = {cell: rational.VARIABLE}
        self.crossings: dict[Cell, tuple[Rational, ...]] = {cell: (rational.VARIABLE,)}
        self.plain = {cell}
        self.owners: dict[Cell, Owners] = {
            cell: np.arange(cell.size).reshape(cell.shape)
        }
        self.knots: list[Knots] = []
        self.guards: set[Node] = set()

    def read(self, node: Node) -> None:
        """Read an equation.

        Raises:
          _NoSpline: If it has no place in such a function.
        """
        cells = [self._first(cell) for cell in node.operands]
        owners = [self.owners.get(cell) for cell in cells]
        made = owners[1:2] if is_search(node) else owners_of(node, owners)
        if made is None or any(each is None for each in made):
            raise _NoSpline
        for result, each in zip(node.results, made):
            if each is not None:
                self.owners[result] = each
        smooth = [cell for cell in cells if cell in self.crossings]
        if not smooth:
            return
        if node.name in COMPARISONS:
            self._compare(node, cells)
        elif is_search(node):
            self._search(node, cells)
        elif node.name in MOVES and len(list(unknown(node))) == 1:
            self._move(node, smooth[0])
        else:
            self._combine(node, cells, smooth)

    def _first(self, cell: Cell) -> Cell:
        return self.region.first.get(cell, cell)

    def _compare(self, node: Node, cells: Sequence[Cell]) -> None:
        one, other = cells
        if one is other:  # whether it is NaN
            return
        cell, known = (one, other) if one in self.crossings else (other, one)
        if known.whole is None:
            raise _NoSpline
        owners = self.owners[node.results[0]].ravel()
        n, shape = self.region.input.size, node.results[0].shape
        counts = np.bincount(owners[owners != NONE], minlength=n)
        if not n or (counts != counts[0]).any() or (owners == NONE).any():
            raise _NoSpline
        order = np.argsort(owners, kind="stable").reshape(n, counts[0]).T
        numbers = (counts[0], *self.region.input.shape)

        def spread(values: Any) -> Any:
            if not jnp.ndim(values):
                return jnp.broadcast_to(values, (1, *numbers[1:]))
            wide = jnp.broadcast_to(values, shape)
            return wide.ravel()[order].reshape(numbers)

        self._learn_knots(self.crossings[cell], known.whole, spread)

    def _search(self, node: Node, cells: Sequence[Cell]) -> None:
        known, cell = cells
        n_axes = len(known.shape) - 1
        if known.whole is None or known.shape[:-1] != cell.shape[:n_axes]:
            raise _NoSpline
        if cell.shape != self.region.input.shape:
            raise _NoSpline
        shape = (known.shape[-1], *known.shape[:-1], *[1] * (len(cell.shape) - n_axes))

        def spread(values: Any) -> Any:
            first = jnp.moveaxis(values, -1, 0).reshape(shape)
            return jnp.broadcast_to(first, (shape[0], *cell.shape))

        self._learn_knots(self.crossings[cell], known.whole, spread)

    def _learn_knots(
        self, forms: Sequence[Rational], values: Lazy, spread: Callable[[Any], Any]
    ) -> None:
        if not forms or any(form.degree != 1 for form in forms):
            raise _NoSpline
        self.knots += [Knots(form, values, spread) for form in forms]

    def _move(self, node: Node, cell: Cell) -> None:
        shape = self.region.input.shape
        whole = self.owners[self.region.input]
        for result in node.results:
            self.crossings[result] = self.crossings[cell]
            self.bases[result] = self.bases[cell]
            if cell in self.plain:
                self.plain.add(result)
            if result.shape == shape and (self.owners[result] == whole).all():
                self.forms[result] = self.bases[cell]

    def _combine(
        self, node: Node, cells: Sequence[Cell], smooth: Sequence[Cell]
    ) -> None:
        result = node.results[0]
        if any(cell not in self.forms for cell in smooth) or not _is_smooth(node):
            raise _NoSpline
        if any(c.shape not in ((), result.shape) for c in node.operands):
            raise _NoSpline
        form = self._made(node, [self._form(cell) for cell in cells])
        if form.degree > 2 * MAX_DEGREE + 1:
            raise _NoSpline
        self.forms[result] = self.bases[result] = form
        if node.name in CUTS:
            self._cut(cells, smooth, node)
        if node.name in FORMS:
            self.crossings[result] = self._crossings(node, cells, smooth)
        else:
            found = [self.crossings[cell] for cell in smooth]
            self.crossings[result] = sum(found, ()) if all(found) else ()
            if node.name == "abs":
                negatives = map(rational.negative, self.crossings[result])
                self.crossings[result] += tuple(negatives)

    def _made(self, node: Node, operands: Sequence[Rational]) -> Rational:
        return form_of_node(node, operands, lambda _: unknown_value())

    def _form(self, cell: Cell) -> Rational:
        known = self.forms.get(cell)
        return known or rational.constant(cell.whole or unknown_value())

    def _crossings(
        self, node: Node, cells: Sequence[Cell], smooth: Sequence[Cell]
    ) -> tuple[Rational, ...]:
        """Return the functions that pass what an arithmetic result passes, if they are known."""
        if any(cell.whole is None and cell not in self.forms for cell in cells):
            return ()
        if all(cell in self.plain for cell in smooth):
            self.plain.add(node.results[0])
            return (self.forms[node.results[0]],)
        if len(smooth) > 1:
            return ()
        return tuple(
            [
                self._made(node, [f if c in smooth else self._form(c) for c in cells])
                for f in self.crossings[smooth[0]]
            ]
        )

    def _cut(self, cells: Sequence[Cell], smooth: Sequence[Cell], node: Node) -> None:
        """Note the knots at which a value is cut off."""
        shape = self.region.input.shape
        spread = lambda value: jnp.broadcast_to(value, (1, *shape))
        zero = Lazy.of(np.zeros((), self.region.input.aval.dtype), True)
        if len(smooth) > 1:  # the greater one of two: where do they meet?
            if len(smooth) > 2 or not self.plain.issuperset(smooth):
                raise _NoSpline
            one, other = [self.forms[cell] for cell in smooth]
            self._learn_knots([rational.minus(one, other)], zero, spread)
            return
        bounds = [cell.whole for cell in cells if cell not in smooth]
        crossings = self.crossings[smooth[0]]
        if not crossings or None in bounds:
            self._guard(node, cells)
        for values in [zero] if node.name == "abs" else bounds:
            if values is not None and crossings:
                self._learn_knots(crossings, values, spread)

    def _guard(self, node: Node, cells: Sequence[Cell]) -> None:
        self.guards.add(node)
        forms = cut_at(node, [self._form(cell) for cell in cells])
        if any(form.degree > MAX_DEGREE for form in forms):
            raise _NoSpline


def _is_smooth(node: Node) -> bool:
    """Return whether an equation computes smooth values of smooth ones."""
    if node.name == "select_n":
        return len(node.operands) == 3
    if node.name == "convert_element_type":
        return node.operands[0].aval.dtype == node.results[0].aval.dtype
    return node.name in CUTS or node.name in FORMS
