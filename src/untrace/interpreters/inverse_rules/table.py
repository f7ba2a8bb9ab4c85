"""The tables of inverse rules, and the calls that fill them.

    unary("exp", jnp.log, slope=lambda x, y: -x, on="y > 0")
    binary("sub", lambda y, b: y + b, lambda y, a: a - y, slope=None)
    lost("round", "not injective: it rounds")

An inverse takes the result, then the operands that are known, then, by keyword, the params
that it names. `slope` gives log |dx/dy| for each element; it is derived if it is not given.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from untrace.interpreters.inverting.cells import Cell, Mask
from untrace.interpreters.inverting.lazy import Lazy
from untrace.interpreters.inverting.ranges import cuts_rounding_only
from untrace.interpreters.inverting.step import NotInvertible, Rule, Step
from untrace.recovery.classifying import recorded

Function = Callable[..., Any]
When = Callable[[Any], "str | None"]


@dataclass(frozen=True, slots=True)
class Inverse:
    """How an elementwise function is solved for one of its operands.

    Attributes:
      compute: Computes the operand of the result and the other operands.
      slope: log |dx/dy| of the operand, the result and the other operands; None if it is
        to be derived.
      on: Where this is the inverse.
      is_principal: Whether it is one of several; may depend on the equation.
      avoids_zero: Whether zeros of the other operand hide this one.
      when: Says why this does not apply to an equation, if it does not.
      is_cut: Whether it is the inverse where the operand is not cut off.
    """

    compute: Function
    slope: Function | None = None
    on: str = ""
    is_principal: bool | Callable[[Any], bool] = False
    avoids_zero: bool = False
    when: When | None = None
    is_cut: bool = False


ELEMENTWISE: dict[str, tuple[Inverse | None, ...]] = {}
"""For each operand its inverse, by the names of primitives."""

RULES: dict[str, tuple[Rule, str]] = {}
"""Rules that are functions, and when they apply."""

LOST: dict[str, str] = {}
"""Why a primitive has no inverse."""

CALLS: dict[str, tuple[Rule, str]] = {}
"""Rules of functions that leave a call, by `called`."""


def flat(x: Any, *others: Any) -> float:
    """The slope of additions and negations: |dx/dy| is 1."""
    return 0.0


def unary(
    name: str,
    compute: Function,
    slope: Function | None = None,
    on: str = "",
    principal: bool | Callable[[Any], bool] = False,
    when: When | None = None,
) -> None:
    """Register the inverse of an elementwise function of one operand."""
    ELEMENTWISE[name] = (Inverse(compute, slope, on, principal, False, when),)


def binary(name: str, left: Inverse | None, right: Inverse | None) -> None:
    """Register the inverses of an elementwise function of two operands."""
    ELEMENTWISE[name] = (left, right)


def lost(names: str, why: str) -> None:
    """Register primitives without an inverse."""
    for name in names.split():
        LOST[name] = why


def solves(names: str, when: str) -> Callable[[Rule], Rule]:
    """Register a function as the rule of primitives."""

    def registered(rule: Rule) -> Rule:
        for name in names.split():
            RULES[name] = rule, when
        return rule

    return registered


def rule_of(node: Any) -> Rule | None:
    """Return the rule of an equation."""
    if node.eqn is None:
        return _identity
    name = node.name
    if name in RULES:
        return RULES[name][0]
    if name in ELEMENTWISE:
        inverses = ELEMENTWISE[name]
        return lambda step: solve_elementwise(step, inverses)
    if name in LOST:
        return _refuse
    return None


def _refuse(step: Step) -> None:
    raise NotInvertible(LOST[step.name])


def _identity(step: Step) -> None:
    step.solve(0, lambda y: y, step.needed_result(), log_det=0.0)


# ---- elementwise -------------------------------------------------------------------


def with_params(function: Function, params: Any) -> Function:
    """Give a function the params that it names as keywords."""
    names = keywords(function)
    if not names:
        return function
    given = {name: params[name] for name in names}
    return lambda *values: function(*values, **given)


def keywords(function: Function) -> list[str]:
    """List the parameters of a function that are keywords only."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    own = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    return [p.name for p in own if p.default is p.empty]


def chosen(step: Step, inverses: Sequence[Inverse | None], i: int) -> Inverse:
    """Return the inverse for an operand.

    Raises:
      NotInvertible: If there is none.
    """
    inverse = inverses[i] if i < len(inverses) else None
    if inverse is None:
        raise NotInvertible("not injective in this operand")
    refusal = None if inverse.when is None else inverse.when(step.node.eqn)
    if refusal:
        raise NotInvertible(refusal)
    several = inverse.is_principal
    if callable(several):
        several = several(step.node.eqn)
    if inverse.is_cut and cuts_rounding_only(step.node, i):
        several = False
    if several and not step.is_principal:
        where = f" where {inverse.on}" if inverse.on else ""
        raise NotInvertible(
            f"not injective; `principal=True` takes the principal branch{where}"
        )
    return inverse


def solve_elementwise(step: Step, inverses: Sequence[Inverse | None]) -> None:
    """Solve an elementwise equation for the only operand that is not known."""
    if not step.results[0].is_known:
        raise NotInvertible("its result is not known")
    i = step.only_unknown()
    inverse = chosen(step, inverses, i)
    y = step.needed_result()
    others = [c.whole for j, c in enumerate(step.operands) if j != i and c.whole]
    if inverse.avoids_zero:
        check_zeros(others[0])
    compute = with_params(inverse.compute, step.params)
    shape = step.operands[i].shape
    if shape != step.results[0].shape:
        step.solve(i, _of_first(compute, shape), y, *others)
        return
    term = summed_slope(inverse, compute, step, i)
    step.solve(i, compute, y, *others, log_det=term, counts_new=True)


def _of_first(compute: Function, shape: tuple[int, ...]) -> Function:
    """Solve for an operand that was stretched: its first element tells it."""

    def first(value: Any) -> Any:
        if jnp.shape(value) == shape:
            return value
        value = value[(0,) * (jnp.ndim(value) - len(shape))]
        index = tuple(
            slice(0, 1) if n == 1 and jnp.shape(value)[k] != 1 else slice(None)
            for k, n in enumerate(shape)
        )
        return value[index]

    return lambda *values: compute(*[first(v) if jnp.ndim(v) else v for v in values])


def check_zeros(other: Lazy) -> None:
    """Refuse to divide by constants that are zero.

    Raises:
      NotInvertible: If an element is.
    """
    values = other.concrete()
    if values is not None and not values.all():
        n_zeros = int((values == 0).sum())
        raise NotInvertible(
            f"information lost: {n_zeros} of {values.size} factors are zero"
        )


def slopes(inverse: Inverse, compute: Function, params: Any) -> Function:
    """Return log |dx/dy| of each element, as a function of x, y and the others."""
    if inverse.slope is not None:
        return with_params(inverse.slope, params)

    def derived(x: Any, y: Any, *others: Any) -> Any:
        @recorded
        def inverse(y: Any) -> Any:
            return compute(y, *others)

        _, slope = jax.jvp(inverse, (y,), (jnp.ones_like(y),))
        return jnp.log(jnp.abs(slope))

    return derived


def summed_slope(inverse: Inverse, compute: Function, step: Step, i: int) -> Any:
    """Return log |det| of an elementwise inverse: the sum of the slopes.

    Elements that are known already count elsewhere.
    """
    if inverse.slope is flat:
        return 0.0
    slope = slopes(inverse, compute, step.params)
    cell = step.operands[i]
    if cell.mask is None:
        return lambda *values: total(slope(*values), cell)
    return masked_slope(slope, cell, ~cell.mask)


def masked_slope(slope: Function, cell: Cell, mask: Mask) -> Function:
    """Return log |det| of the elements that a mask lets pass."""

    def log_det(*values: Any) -> Any:
        terms = jnp.broadcast_to(slope(*values), cell.shape)
        return total(jnp.where(mask, terms, 0), cell)

    return log_det


def total(terms: Any, cell: Cell) -> Any:
    """Sum terms, one for each element of a value or one for several of them.

    A complex element counts twice: its derivative is a turn and a stretch of two axes.
    """
    scale = 2 if jnp.issubdtype(cell.aval.dtype, jnp.complexfloating) else 1
    times = scale * cell.size // max(jnp.size(terms), 1)  # factors may be stretched
    terms = jnp.sum(terms) if jnp.ndim(terms) else terms
    return terms if times == 1 else times * terms
