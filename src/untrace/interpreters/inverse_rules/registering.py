"""Inverses for primitives and functions of libraries: `untrace.register_inverse`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from untrace.errors import InverseError
from untrace.interpreters.inverse_rules.calls import place_of
from untrace.interpreters.inverse_rules.table import (
    CALLS,
    ELEMENTWISE,
    LOST,
    RULES,
    Inverse,
    solve_elementwise,
    with_params,
)

# What is built in is there first.
from untrace.interpreters.inverse_rules.tables import TABLES as TABLES
from untrace.interpreters.inverting.step import NotInvertible, Rule, Step

Function = Callable[..., Any]


def register_inverse(
    what: Any,
    *inverses: Function | None,
    log_det: Function | float | None = None,
    elementwise: bool = False,
) -> None:
    """Say how a primitive, or a function that leaves a call, is inverted.

    Args:
      what: A primitive or its name; or a function made by `jax.jit`, `jax.custom_jvp` or
        `jax.custom_vjp`, whose calls are then inverted as a whole.
      *inverses: For each operand, in the order of the flat arguments, a function that
        computes it. It takes the results, then the other operands, then, by keyword,
        params of the primitive that it has as keyword-only parameters. None, or none
        given, says that the operand cannot be computed.
      log_det: log |det| of the derivative of the operand by the result, as a function of
        the operand, the results and the other operands; or a number. With `elementwise`
        the log |dx/dy| of each element, which is derived if it is not given.
      elementwise: Whether each element of the result depends on the elements of the
        operands at its place alone.

    Raises:
      InverseError: If `what` is a function that leaves no call in a jaxpr.

    >>> register_inverse("scale", lambda y, *, factor: y / factor, elementwise=True)
    """
    name, body = _target(what)
    if elementwise:
        slope = _constant(log_det) if isinstance(log_det, (int, float)) else log_det
        made = tuple(
            None if inverse is None else Inverse(inverse, slope) for inverse in inverses
        )
        if body:
            CALLS[body] = (lambda step: solve_elementwise(step, made)), "registered"
        else:
            ELEMENTWISE[name] = made
            RULES.pop(name, None)
            LOST.pop(name, None)
        return
    rule = _rule(inverses, log_det)
    if body:
        CALLS[body] = rule, "registered"
    else:
        RULES[name] = rule, "registered"


def _constant(number: float) -> Function:
    return lambda *values: float(number)


def _target(what: Any) -> tuple[str, str]:
    """Return the name of a primitive, or where a function is written."""
    if isinstance(what, str):
        return what, ""
    if hasattr(what, "bind"):
        return what.name, ""
    plain = inspect.unwrap(what)
    plain = getattr(plain, "fun", plain)
    is_plain = plain is what and not hasattr(what, "lower")
    code = getattr(inspect.unwrap(plain), "__code__", None)
    if is_plain or code is None:
        raise InverseError(
            f"{getattr(what, '__name__', what)} leaves no call in a jaxpr that could be "
            "inverted as a whole. Decorate it with jax.jit, and register the result."
        )
    return "", place_of(code.co_filename, code.co_firstlineno)


def _rule(
    inverses: tuple[Function | None, ...], log_det: Function | float | None
) -> Rule:
    def rule(step: Step) -> None:
        ys = [step.needed_result(i) for i in range(len(step.results))]
        i = step.only_unknown()
        inverse = inverses[i] if i < len(inverses) else None
        if inverse is None:
            raise NotInvertible(f"no inverse is registered for operand {i}")
        others = [c.whole for j, c in enumerate(step.operands) if j != i and c.whole]
        term = float(log_det) if isinstance(log_det, int) else log_det
        compute = with_params(inverse, step.params)
        step.solve(i, compute, *ys, *others, log_det=term)

    return rule
