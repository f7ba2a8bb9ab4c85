"""Floats that the program computes of those that they were in the turn before: `rate *= 0.9`."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from untrace.lifting.recorded.terms import Name, Ref, Term
from untrace.lifting.recorded.tree import Statement
from untrace.syntax.precedence import LEVELS

MIN_STEPS = 2
"""Any two floats are so many times each other."""
MOST_DIGITS = 6

_OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "*": operator.mul,
    "/": operator.truediv,
    "+": operator.add,
    "-": operator.sub,
}


class Step(NamedTuple):
    """What is done to a float from one turn to the next.

    Attributes:
      sign: The operator.
      operand: The number on its right.
    """

    sign: str
    operand: float


class FloatCarry(NamedTuple):
    """A float that turns hand on.

    Attributes:
      name: Its variable.
      first: What it begins as.
      step: What is done to it at the end of a turn.
    """

    name: Name
    first: Term
    step: Step

    def begin(self) -> Statement:
        """Give the variable its first value."""
        return Statement(self.name, self.first, is_start=True)

    def update(self) -> Statement:
        """Give it that of the next turn."""
        text = f" {self.step.sign} {self.step.operand}"
        term = Term([Ref(self.name), text], LEVELS[self.step.sign])
        return Statement(self.name, term)


def step_of(floats: Sequence[Any]) -> Step | None:
    """Return how each of some floats is made of the one before it, exactly so.

    >>> step_of([0.1, 0.1 * 0.9, 0.1 * 0.9 * 0.9])
    Step(sign='*', operand=0.9)
    """
    is_long = len(floats) > MIN_STEPS and all(type(one) is float for one in floats)
    if not is_long or not all(map(math.isfinite, floats)) or 0.0 in floats:
        return None
    pairs = list(itertools.pairwise(floats))
    for step in _steps(*pairs[0]):
        compute = _OPERATIONS[step.sign]
        if all(compute(one, step.operand) == following for one, following in pairs):
            return step
    return None


def _steps(first: float, second: float) -> Iterator[Step]:
    """Yield the steps from one float to another, those with the shortest numbers first."""
    found = {
        "*": second / first,
        "/": first / second,
        "+": second - first,
        "-": first - second,
    }
    for n_digits in range(1, MOST_DIGITS + 1):
        for sign, operand in found.items():
            short = float(f"{operand:.{n_digits}g}")
            if short > 0 and not (sign in "*/" and short == 1):
                yield Step(sign, short)
