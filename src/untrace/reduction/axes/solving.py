"""Work out the sizes that follow from the change of one.

A part larger than what it is taken from shrinks too, by as much if that is possible;
a concatenation is as large as its parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from untrace.axes.factors import Dims, Factor, leaves
from untrace.axes.sites import AtMost, Relation, Sum

MAX_ROUNDS = 50


class Sizes:
    """New sizes of factors; those that are not changed keep theirs."""

    def __init__(self, chosen: Mapping[Factor, int]) -> None:
        self.chosen = dict(chosen)

    def size(self, dim: Factor) -> int:
        """Return the new size of an axis."""
        product = 1
        for leaf in leaves([dim]):
            product *= self.chosen.get(leaf, leaf.size)
        return product

    def shape(self, dims: Dims) -> tuple[int, ...]:
        """Return the new shape of a value."""
        return tuple(map(self.size, dims))

    def is_changed(self, dims: Iterable[Factor]) -> bool:
        """Whether any of `dims` has another size."""
        return any(self.size(dim) != dim.size for dim in dims)

    def change(self, dim: Factor, size: int) -> bool:
        """Give an axis a smaller size if nothing has been decided about it."""
        found = [leaf for leaf in leaves([dim]) if leaf.size != 1]
        if len(found) != 1 or not 1 <= size <= dim.size:
            return False
        (leaf,) = found
        if leaf.is_frozen or self.chosen.get(leaf, leaf.size) < size:
            return False
        self.chosen[leaf] = size
        return True


def solve(chosen: Mapping[Factor, int], relations: list[Relation]) -> Sizes | None:
    """Return all new sizes that follow from those chosen, or None if they cannot be."""
    sizes = Sizes(chosen)
    for _ in range(MAX_ROUNDS):
        broken = [relation for relation in relations if not _holds(relation, sizes)]
        if not broken:
            return sizes
        if not all(_mended(relation, sizes) for relation in broken):
            return None
    return None


def _holds(relation: Relation, sizes: Sizes) -> bool:
    if isinstance(relation, AtMost):
        return sizes.size(relation.part) <= sizes.size(relation.whole)
    return sum(map(sizes.size, relation.parts)) == sizes.size(relation.whole)


def _mended(relation: Relation, sizes: Sizes) -> bool:
    if _holds(relation, sizes):  # by now
        return True
    if isinstance(relation, AtMost):
        part, whole = relation.part, relation.whole
        less = whole.size - sizes.size(whole)
        wanted = max(1, part.size - less)
        return sizes.change(part, wanted)
    return _mended_sum(relation, sizes)


def _mended_sum(relation: Sum, sizes: Sizes) -> bool:
    total = sum(map(sizes.size, relation.parts))
    if total < sizes.size(relation.whole) and sizes.change(relation.whole, total):
        return True
    excess = total - sizes.size(relation.whole)
    largest = max(relation.parts, key=sizes.size)
    n = sum(part is largest for part in relation.parts)
    return excess % n == 0 and sizes.change(largest, sizes.size(largest) - excess // n)
