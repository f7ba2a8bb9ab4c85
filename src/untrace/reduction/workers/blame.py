"""Find the primitive that first makes a NaN or an infinity out of better operands.

Run by path; see `wire`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...interpreters.nans.by_equation import evaluated
from ...interpreters.nans.flagging import Stretch, flagged
from ...interpreters.nans.grading import INFINITE
from ...interpreters.nans.search import search
from ...interpreters.sub_programs import body_param, split

MAX_BYTES = 1 << 30
"""Of all values of a program, which are kept where it is run equation by equation."""


def blame(
    jaxpr: Any,
    args: Sequence[Any],
    ends: Sequence[int],
    by_equation: Stretch | None = None,
) -> dict[str, Any]:
    """Find the primitive to blame; nothing is returned if none is found.

    What makes such a value op by op is found by compiling single equations. Only where
    nothing does, the program is compiled with flags, which takes much longer.

    Args:
      jaxpr: The program.
      args: Its inputs.
      ends: Positions of the outputs that are bad.
      by_equation: What it made equation by equation, if that is known.

    Returns:
      Its name as "blame", and, if it stands in no sub-program, the number of the
      equation as "blame_row".
    """
    if by_equation is None and n_bytes(jaxpr) <= MAX_BYTES:
        by_equation = evaluated(jaxpr, args)
    found = None
    if by_equation is not None:
        found = search(by_equation, INFINITE, ends)
    if found is None or found.row is None:
        found = search(flagged(jaxpr, args), INFINITE, ends)
    if found.row is None:
        return {}
    row = found.stretch.rows[found.row]
    place = None if row.path else rows_of(jaxpr)[id(row.equation)]
    return {"blame": row.equation.primitive.name, "blame_row": place}


def rows_of(jaxpr: Any) -> dict[int, int]:
    """Return the numbers of the equations of a program, by identity."""
    return {id(equation): i for i, equation in enumerate(split(jaxpr)[0].eqns)}


def n_bytes(jaxpr: Any) -> int:
    """Return the size of all that a program makes, what its calls make as well."""
    total = 0
    for equation in split(jaxpr)[0].eqns:
        total += sum(_size(var.aval) for var in equation.outvars)
        key = body_param(equation)
        total += 0 if key is None else n_bytes(equation.params[key])
    return total


def _size(aval: Any) -> int:
    itemsize = getattr(getattr(aval, "dtype", None), "itemsize", 0)
    return itemsize * math.prod(getattr(aval, "shape", ()))
