"""A program that is being reduced: a computation without constants, and its inputs.

`Program` is what passes edit and what a predicate is asked about. Its inputs hold
values, since many failures depend on them; constants of the original are inputs too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from untrace.ir import Block, Equation, all_blocks, all_equations, sub_blocks


@dataclass(frozen=True, eq=False)
class Program:
    """A closed computation and the values of its inputs.

    Attributes:
      block: The computation; it has no constants of its own.
      values: A NumPy array (a JAX array for PRNG keys) for each of `block.inputs`, of
        exactly its shape and dtype.
      name: Name of the function.
      names: What the inputs are called, "" where nothing is known.
      controls: Other values of the inputs, with which the program must not fail; None
        if nothing is demanded. What was cut holds here what it had under them.
    """

    block: Block
    values: tuple[Any, ...]
    name: str
    names: tuple[str, ...]
    controls: tuple[Any, ...] | None = None

    def with_values(self, values: tuple[Any, ...]) -> Program:
        """Return the same program with other inputs, and without a control."""
        return replace(self, values=values, controls=None)


COMPUTING = frozenset({"reduce", "reduce_window", "select_and_scatter"})
"""Primitives that are given a small computation on elements, beside the scatters."""


def is_computing(eqn: Equation) -> bool:
    """Whether what stands in an equation is a computation on elements, as of sums.

    XLA lowers few of those, so they are kept as they are or go as a whole.
    """
    return eqn.name in COMPUTING or eqn.name.startswith("scatter")


def open_blocks(block: Block) -> Iterator[Block]:
    """List a block and those in it that may be edited, each once, outermost first."""
    closed = {
        inner
        for eqn in all_equations(block)
        if is_computing(eqn)
        for body in sub_blocks(eqn)
        for inner in all_blocks(body)
    }
    return (found for found in all_blocks(block) if found not in closed)


def open_equations(block: Block) -> Iterator[Equation]:
    """List the equations of a block and of those in it that may be edited."""
    for found in open_blocks(block):
        yield from found.equations
