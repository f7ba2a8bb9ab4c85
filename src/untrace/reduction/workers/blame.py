"""Find the primitive that first makes a NaN or an infinity out of better operands.

Run by path; see `wire`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from ...interpreters.nans.flagging import flagged
from ...interpreters.nans.grading import INFINITE
from ...interpreters.nans.search import search


def blame(
    function: Callable[..., Any], args: Sequence[Any], is_compiled: bool = True
) -> dict[str, Any]:
    """Find the primitive to blame; nothing is returned if none is found.

    Args:
      function: A function of flat positional arguments.
      args: Their values.
      is_compiled: Otherwise its primitives run one by one.

    Returns:
      Its name as "blame", and, if it stands in no sub-program, the number of the
      equation as "blame_row".
    """
    jaxpr = jax.make_jaxpr(function)(*args)
    found = search(flagged(jaxpr, args, is_compiled=is_compiled), INFINITE)
    if found.row is None:
        return {}
    name = found.stretch.rows[found.row].equation.primitive.name
    row = None if found.stretch.path else found.row
    return {"blame": name, "blame_row": row}
