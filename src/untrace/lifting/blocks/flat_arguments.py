"""Functions of many flat arguments, most of which need no name: they take `*args`."""

from __future__ import annotations

import collections
from collections.abc import Sequence

from untrace.ir import Block, Equation
from untrace.lifting.names.naming import UNNAMED
from untrace.lifting.printing import Group
from untrace.optional import gives, optional

MIN_FLAT = 8
"""Parameters of a function that may be taken as `*args`."""
MIN_ARGS = 16
"""Parameters that are taken so whatever is done with them, if they have no names."""


@optional(gives(""))
def starred(block: Block, groups: Sequence[Group], hints: Sequence[str]) -> str:
    """Name the tuple of all arguments that a function takes; "" if each has its name.

    Args:
      block: The body of the function.
      groups: What its parameters are.
      hints: The names of all inputs of the block.
    """
    n = len(groups)
    if n < MIN_FLAT or any(group.size != 1 or group.is_tuple for group in groups):
        return ""
    inputs, names = block.inputs[-n:], hints[-n:]
    base = names[0].removesuffix("_0")
    if list(names) == [f"{base}_{i}" for i in range(n)]:
        return base
    reads = collections.Counter(
        atom
        for eqn in block.equations
        if not _has_blocks(eqn)
        for atom in set(eqn.operands)
    )
    if names.count(UNNAMED) > n // 2:
        is_meant = n >= MIN_ARGS or sum(reads[v] > 1 for v in inputs) <= n // 2
    else:
        is_meant = n >= MIN_ARGS and sum(reads[v] > 0 for v in inputs) <= n // 4
    return "args" if is_meant else ""


def _has_blocks(eqn: Equation) -> bool:
    """Whether an equation passes its operands on to a sub-program."""
    return any(
        isinstance(item, Block)
        for param in eqn.params.values()
        for item in (param if type(param) is tuple else (param,))
    )
