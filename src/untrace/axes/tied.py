"""Compare the axes of all values of a program, at any depth, by the rules of `links.py`."""

from __future__ import annotations

from untrace.axes.calls import CALL_LINKS
from untrace.axes.factors import Factor, freeze, keep, leaves
from untrace.axes.links import link
from untrace.axes.sites import Table
from untrace.ir import Block, all_blocks

InputAxis = tuple[int, int]
"""An input by its position, and one of its axes."""


def table_of(block: Block, ties_parts: bool = True) -> Table:
    """The axes of a program and all its sub-programs, compared.

    A sub-program called from several places has the same axes in all of them. Parts of
    equal size that are put together are taken to be alike if `ties_parts`.
    """
    table = Table(ties_parts)
    for found in all_blocks(block, CALL_LINKS):  # axes of others are their own
        for value, _ in found.constants:
            freeze(table.dims(value))
            keep(table.dims(value))
        for eqn in found.equations:
            link(table.site(eqn))
    return table


def tied_axes(block: Block) -> list[tuple[InputAxis, ...]]:
    """List the classes of the axes of a block's inputs that are longer than 1.

    This only proposes what to vary together: tracing the function at other sizes tells
    whether it was right. An axis that a tie is missed for, or that is tied to too many,
    has no name in the end, or shares one.
    """
    table = table_of(block, ties_parts=False)
    classes: dict[tuple[Factor, ...], list[InputAxis]] = {}
    for position, value in enumerate(block.inputs):
        for axis, dim in enumerate(table.dims(value)):
            if dim.size > 1:
                found = classes.setdefault(tuple(leaves([dim])), [])
                found.append((position, axis))
    return list(map(tuple, classes.values()))
