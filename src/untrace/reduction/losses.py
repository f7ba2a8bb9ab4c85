"""From a step whose gradient fails to the loss that it differentiates.

What is left of a backward pass is a line or two that nobody wrote. Where the loss alone
does not fail so and its gradient does, the loss is reduced in the place of the step, under
`jax.grad`: then the user's own line is left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from untrace.reduction.driver import Pinned, Plan, pin, shows
from untrace.reduction.keeping import Keep
from untrace.reduction.keeping.automatic import Auto
from untrace.reduction.keeping.values import Inf, Nan
from untrace.reduction.program import Program

OF_LOSS = (
    "The loss does not fail so, and its gradient does: it is reduced, under jax.grad."
)


def pinned_loss(
    keep: Keep, pinned: Keep, loss: Callable[[], Program] | None, plan: Plan
) -> tuple[Program, Pinned] | None:
    """Return the loss of a program, and how its gradient fails; None if it does not.

    Args:
      keep: The predicate as it was given.
      pinned: What was pinned of it.
      loss: Traces the loss; fails in any way if there is none.
      plan: How the reduction is carried out.
    """
    if not isinstance(keep, Auto) or not isinstance(pinned, (Nan, Inf)):
        return None
    if loss is None or keep.under is not None:
        return None
    try:
        program = loss()
    except Exception:  # it runs the user's code in another way than the user does
        return None
    gradient = replace(keep, under="grad")
    same = type(pinned)(env=keep.env, timeout_s=keep.timeout_s)
    if shows(program, same, plan) or not shows(program, gradient, plan):
        return None
    return program, pin(program, gradient, plan)
