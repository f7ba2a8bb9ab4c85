"""Find the axes of a program that change together.

The axes of all values, at any depth, are compared by the rules of `links.py`. What is
left is one `Axis` for each factor that no equation freezes: a batch, a head, a feature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from untrace.axes.factors import Factor, leaves
from untrace.axes.sites import Sum, Table
from untrace.axes.tied import table_of
from untrace.ir import Block, Value


@dataclass(frozen=True, eq=False)
class Axis:
    """An axis that occurs in many values and changes in all of them.

    Attributes:
      size: In elements.
      places: Inputs of the program it occurs in, and at which axis.
      n_elements: Elements of all values that have it.
      factor: What it is in `table`.
      table: The axes it was found among.
    """

    size: int
    places: tuple[tuple[Value, int], ...]
    n_elements: int
    factor: Factor = field(repr=False)
    table: Table = field(repr=False)


@dataclass(frozen=True, eq=False)
class Axes:
    """The axes of a program.

    Attributes:
      groups: Axes of more than one element that may shrink, the most elements first;
        then axes of one element that may be removed.
    """

    groups: list[Axis]


def find_axes(block: Block) -> Axes:
    """Find the axes that change together, in a program and all its sub-programs."""
    return _listed(block, table_of(block))


def _listed(block: Block, table: Table) -> Axes:
    n_elements: dict[Factor, int] = {}
    for value, dims in table.axes.items():
        elements = math.prod(getattr(value.aval, "shape", ()))
        for leaf in dict.fromkeys(leaves(dims)):
            n_elements[leaf] = n_elements.get(leaf, 0) + elements
    for site in table.sites.values():
        for leaf in leaves(site.sizes.values()):
            n_elements.setdefault(leaf, leaf.size)
    places: dict[Factor, list[tuple[Value, int]]] = {}
    for value in block.inputs:
        for axis, dim in enumerate(table.dims(value)):
            for leaf in dict.fromkeys(leaves([dim])):
                places.setdefault(leaf, []).append((value, axis))
    sums = _determined(table)
    every = [
        Axis(leaf.size, tuple(places.get(leaf, ())), n, leaf, table)
        for leaf, n in sorted(n_elements.items(), key=lambda item: -item[1])
    ]
    longer = [
        axis
        for axis in every
        if axis.size > 1 and not axis.factor.is_frozen and axis.factor not in sums
    ]
    ones = [axis for axis in every if axis.size == 1 and not axis.factor.is_kept]
    return Axes([*longer, *ones])


def _determined(table: Table) -> set[Factor]:
    """Collect the factors that follow from others: the size of a concatenation."""
    wholes = [
        leaves([relation.whole])
        for relation in table.relations
        if isinstance(relation, Sum)
    ]
    return {whole[0] for whole in wholes if len(whole) == 1}
