"""Between which numbers a value lies by what makes it.

A sigmoid is less than 1; one that is clipped to be so is not told from one that is not but
for rounding, and the clip is inverted where others would hide a part of their operand.
"""

from __future__ import annotations

import math

import jax.numpy as jnp

from untrace.interpreters.inverting.cells import Cell
from untrace.interpreters.inverting.network import IDENTITY, Node, maker_of

Range = tuple[float, float]

RANGES: dict[str, Range] = {
    "logistic": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "erf": (-1.0, 1.0),
    "erfc": (0.0, 2.0),
    "exp": (0.0, math.inf),
    "exp2": (0.0, math.inf),
    "abs": (0.0, math.inf),
    "sqrt": (0.0, math.inf),
    "atan": (-math.pi / 2, math.pi / 2),
}
"""Open intervals, but for rounding."""

N_UNITS = 64
"""So many units of the last place, of the length of a range, are rounding."""


def cuts_rounding_only(node: Node, i: int) -> bool:
    """Return whether `max`, `min` or `clamp` leaves an operand what it is, up to rounding."""
    bounds = _bounds(node, i)
    found = range_of(node.operands[i])
    if bounds is None or found is None:
        return False
    (low, high), (least, greatest) = bounds, found
    limits = jnp.finfo(node.operands[i].aval.dtype)
    length = greatest - least
    scale = length if math.isfinite(length) else 0.0
    slack = N_UNITS * float(limits.eps) * scale + float(limits.tiny)
    return low <= least + slack and high >= greatest - slack


def range_of(cell: Cell) -> Range | None:
    """Return the range of a value, if its equation tells one."""
    node = maker_of(cell)
    while node is not None and node.name == IDENTITY:
        node = maker_of(node.operands[0])
    if node is None:
        return None
    if node.name in ("max", "min"):
        unknown = [i for i, each in enumerate(node.operands) if not each.is_known]
        is_kept = len(unknown) == 1 and cuts_rounding_only(node, unknown[0])
        return range_of(node.operands[unknown[0]]) if is_kept else None
    return RANGES.get(node.name)


def _bounds(node: Node, i: int) -> Range | None:
    """Return between which numbers an equation keeps an operand."""
    constants = [
        None if cell.whole is None else cell.whole.concrete() for cell in node.operands
    ]
    others = [each for j, each in enumerate(constants) if j != i and each is not None]
    if len(others) != len(constants) - 1 or not all(each.size for each in others):
        return None
    if node.name == "max":
        return float(others[0].max()), math.inf
    if node.name == "min":
        return -math.inf, float(others[0].min())
    if node.name == "clamp" and i == 1:
        return float(others[0].max()), float(others[1].min())
    return None
