"""The sub-programs of equations, at one depth or at all."""

from __future__ import annotations

from collections.abc import Container, Iterator

from untrace.ir.program import Block, Equation


def sub_blocks(eqn: Equation) -> Iterator[Block]:
    """List the blocks in the params of an equation."""
    for param in eqn.params.values():
        if isinstance(param, Block):
            yield param
        elif isinstance(param, tuple):
            yield from (item for item in param if isinstance(item, Block))


def all_blocks(block: Block, through: Container[str] | None = None) -> Iterator[Block]:
    """List a block and all that it contains, each once, outermost first.

    Args:
      block: Where to begin.
      through: Names of the primitives whose sub-programs count; all if None.
    """
    seen: set[Block] = set()
    stack = [block]
    while stack:
        found = stack.pop()
        if found in seen:
            continue
        seen.add(found)
        yield found
        for eqn in found.equations:
            if through is None or eqn.name in through:
                stack += sub_blocks(eqn)


def all_equations(block: Block) -> Iterator[Equation]:
    """List the equations of a block and of all that it contains."""
    for found in all_blocks(block):
        yield from found.equations
