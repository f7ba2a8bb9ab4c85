"""The table of one-line rules for every primitive without sub-programs.

A rule looks like the line it prints. For each primitive the prettiest comes first:
operators, `jnp` functions, `jax.lax` functions, other public modules. A rule stays only
if its text traces back to exactly the equations that it accepts: same params, same
types, literals neither promoted nor broadcast. What no rule accepts is bound.

The tables are in `elementwise`, `arrays`, `reductions` and `special`;
the preconditions in `when`; names of results in `names`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from untrace.lifting.rules import (
    arrays,  # these register their rules
    elementwise,
    reductions,
    special,
)
from untrace.lifting.rules.names import NAMES
from untrace.syntax.text import quote

__all__ = ["FORMATS", "NAMES", "TABLES"]

TABLES = (elementwise, arrays, reductions, special)


def _single(value: Any) -> Any:
    """Give the item of a tuple of one, and longer tuples unchanged."""
    return value[0] if len(value) == 1 else tuple(value)


def _item(position: int) -> Callable[[Any], Any]:
    """Give one item, or None where there is no such item and `when` will decline."""
    return lambda value: value[position] if value and len(value) > position else None


def _is_one_name(names: Any) -> bool:
    return len(names) == 1 and isinstance(names[0], str)


FORMATS: dict[str, Callable[[Any], Any]] = {
    # A param that follows from the operands, as the rule's `when` makes sure: no text.
    "implied": lambda value: "",
    # Axes as jnp takes them: `0` or `(0, 2)`.
    "axis": _single,
    # Names of axes as collectives take them: `"i"` or `("i", "j")`.
    "mesh_axis": lambda names: quote(names[0]) if _is_one_name(names) else names,
    # The name of a PRNG implementation, as a string.
    "impl": lambda value: quote(str(value.name)),
    **{f"item{i}": _item(i) for i in range(6)},
}
