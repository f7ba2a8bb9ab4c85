"""Functions that a call keeps for later: the transpose that `linear_call` is given.

The recorded run did not need them, so they are traced apart, at the recorded types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from untrace.lifting.recorded.functions.runs import runs_of
from untrace.lifting.recorded.program import Program
from untrace.lifting.recorded.readers import public_readers
from untrace.recovery.apart import run_apart, struct
from untrace.recovery.record import Body, Call

_ROLE = "fun_transpose"


def with_kept(value: Any, role: str, item: Call, program: Program) -> Sequence[Body]:
    """Return runs for the argument of a call that has a role, one of them its own."""
    is_kept = item.function is jax.custom_derivatives.linear_call and role == _ROLE
    if not is_kept or runs_of(value, item.bodies):
        return item.bodies

    def traced() -> Body:
        types = struct(item.args[2]), struct(item.result)
        return run_apart(value, types, public_readers)

    return [*item.bodies, program.plan.apart.once((id(value), id(item)), traced)]
