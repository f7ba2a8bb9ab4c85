"""From a step whose gradient fails to the loss that it differentiates.

What is left of a backward pass is a line or two that nobody wrote. Where the loss alone
does not fail so and its gradient does, the loss is reduced in the place of the step, under
`jax.grad`: then the user's own line is left. Where the loss fails by itself, it is reduced
as it is: of the step, its equations would pass for those of a derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from untrace.reduction.driver import Pinned, Plan, pin, shows
from untrace.reduction.keeping import Keep
from untrace.reduction.keeping.automatic import Auto
from untrace.reduction.keeping.values import Inf, Nan
from untrace.reduction.program import Program

OF_LOSS = (
    "The loss does not fail so, and its gradient does: it is reduced, under jax.grad."
)
OF_FORWARD = "The loss fails so by itself: it is reduced, without its gradient."


@dataclass(frozen=True)
class Loss:
    """A loss that is reduced in the place of the step that differentiates it.

    Attributes:
      program: The loss.
      pinned: How it fails.
      said: What the user is told.
    """

    program: Program
    pinned: Pinned
    said: str


def pinned_loss(
    keep: Keep, pinned: Keep, loss: Callable[[], Program] | None, plan: Plan
) -> Loss | None:
    """Return the loss of a program, if it or its gradient fails; None if neither does.

    Args:
      keep: The predicate as it was given.
      pinned: What was pinned of it.
      loss: Traces the loss; fails in any way if there is none.
      plan: How the reduction is carried out.
    """
    if not isinstance(keep, Auto) or not isinstance(pinned, (Nan, Inf)):
        return None
    program = None if keep.under is not None else _traced(loss)
    if program is None:
        return None
    if shows(program, _same(pinned), plan):
        found = pin(program, keep, plan)
        is_same = found.keep.blamed == pinned.blamed and found.keep.blamed is not None
        return Loss(program, found, OF_FORWARD) if is_same else None
    gradient = replace(keep, under="grad")
    if not shows(program, gradient, plan):
        return None
    return Loss(program, pin(program, gradient, plan), OF_LOSS)


def fails_itself(pinned: Keep, loss: Callable[[], Program] | None, plan: Plan) -> bool:
    """Whether the loss of a program fails as the program does, without its gradient."""
    if not isinstance(pinned, (Nan, Inf)) or pinned.under is not None:
        return False
    program = _traced(loss)
    return program is not None and shows(program, _same(pinned), plan)


def _same(pinned: Nan | Inf) -> Keep:
    return type(pinned)(env=pinned.env, timeout_s=pinned.timeout_s)


def _traced(loss: Callable[[], Program] | None) -> Program | None:
    try:
        return None if loss is None else loss()
    except Exception:  # it runs the user's code in another way than the user does
        return None
