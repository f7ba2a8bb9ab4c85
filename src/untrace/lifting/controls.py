"""The functions that print equations which are more than a rule's line.

One is registered for primitives with `control` (asked after the rules) or `preferred`
(asked before them). It takes an equation and the `Frame` being written, and returns an
`Rhs`, or None to leave the equation to the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from untrace.ir import Equation
from untrace.lifting.printing import Rhs

Control = Callable[[Equation, Any], Rhs | None]
"""The second argument is the `Frame`, which looks functions up here."""

_F = TypeVar("_F", bound=Control)

ANY = "*"
"""What the last resort is registered for, which writes any primitive."""

CONTROLS: dict[str, Control] = {}

PREFERRED: dict[str, Control] = {}


def control(*primitives: str) -> Callable[[_F], _F]:
    """Register the function that prints primitives with sub-programs."""

    def register(function: _F) -> _F:
        for primitive in primitives:
            CONTROLS[primitive] = function
        return function

    return register


def preferred(*primitives: str) -> Callable[[_F], _F]:
    """Register a function that is asked before the rules; mostly it returns None."""

    def register(function: _F) -> _F:
        for primitive in primitives:
            PREFERRED[primitive] = function
        return function

    return register
