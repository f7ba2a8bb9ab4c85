"""Write checks at run time as calls of a helper, `x = error_if(x, x < 0, "message")`.

Equinox makes each check a function of its own, with a derivative rule and two functions
that run on the host. What these do is no part of the program; the helper's functions
stand in for them.
"""

from __future__ import annotations

from untrace import jaxapi
from untrace.ir import Block, Equation
from untrace.lifting.frame import Frame
from untrace.lifting.printing import Rhs, unpacked

HELPER = "error_if"


def checked_for_errors(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write an equation that is a check; None for any other, and at level "lax"."""
    block: Block = eqn.params["call_jaxpr"]
    if frame.lifter.options.level != "api":
        return None
    found = jaxapi.checked_message(block.jaxpr)
    n_given = len(eqn.operands) - len(block.outputs)
    if found is None or eqn.params["num_consts"] or n_given not in (1, 2):
        return None
    given = frame.texts(eqn.operands)
    n = len(block.outputs)
    x = given[0] if n == 1 else f"({', '.join(given[:n])})"
    pred, *index = given[n:]
    args = [x, pred, frame.lifter.spell(found[0]), *index]
    text = f"{frame.lifter.helper(HELPER)}({', '.join(args)})"
    return Rhs(text, lambda names: names[0]) if n == 1 else Rhs(text, unpacked)
