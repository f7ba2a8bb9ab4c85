"""The functions that print equations which are more than a rule's line.

One is registered for primitives with `control` (asked after the rules) or `preferred`
(asked before them). It takes an equation and the `Frame` being written, and returns an
`Rhs`, or None to leave the equation to the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from untrace.ir import Equation
from untrace.lifting.printing import Rhs

if TYPE_CHECKING:
    from untrace.lifting.frame import Frame

Control = Callable[[Equation, "Frame"], Rhs | None]

CONTROLS: dict[str, Control] = {}

PREFERRED: dict[str, Control] = {}


def control(*primitives: str) -> Callable[[Control], Control]:
    """Register the function that prints primitives with sub-programs."""

    def register(function: Control) -> Control:
        for primitive in primitives:
            CONTROLS[primitive] = function
        return function

    return register


def preferred(*primitives: str) -> Callable[[Control], Control]:
    """Register a function that is asked before the rules; mostly it returns None."""

    def register(function: Control) -> Control:
        for primitive in primitives:
            PREFERRED[primitive] = function
        return function

    return register
