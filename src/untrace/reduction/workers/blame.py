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


def blame(function: Callable[..., Any], args: Sequence[Any]) -> str | None:
    """Return the name of the primitive to blame, or None if none is found.

    Args:
      function: A function of flat positional arguments.
      args: Their values.
    """
    found = search(flagged(jax.make_jaxpr(function)(*args), args), INFINITE)
    if found.row is None:
        return None
    return found.stretch.rows[found.row].equation.primitive.name
