"""Factors: the sizes of axes, as products that are refined while axes are compared.

Every axis of every value is a `Factor`. Axes found to be equal share one; an axis that a
reshape splits becomes a product of others, wherever it occurs. Two products of the same
size get their common refinement, as in the notation of einops; where there is none, what
they consist of is frozen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Factor:
    """A size that may change.

    Attributes:
      size: In elements.
      same: The factor it turned out to be.
      parts: The factors it is a product of, outermost first.
      is_frozen: Whether its size must stay.
      is_kept: Whether an axis of size 1 must stay.
    """

    size: int
    same: Factor | None = None
    parts: tuple[Factor, ...] = ()
    is_frozen: bool = False
    is_kept: bool = False


Dims = tuple[Factor, ...]


def leaves(dims: Iterable[Factor]) -> list[Factor]:
    """List the factors that `dims` are products of, outermost first."""
    found: list[Factor] = []
    for dim in dims:
        root = _root(dim)
        found += leaves(root.parts) if root.parts else [root]
    return found


def freeze(dims: Iterable[Factor]) -> None:
    """Keep the sizes of `dims`."""
    for leaf in leaves(dims):
        leaf.is_frozen = True


def keep(dims: Iterable[Factor]) -> None:
    """Keep those of `dims` that have size 1 from being removed."""
    for leaf in leaves(dims):
        leaf.is_kept = True


def frozen(size: int) -> Factor:
    """Make a factor whose size stays."""
    return Factor(size, is_frozen=True, is_kept=True)


def equate(left: Sequence[Factor], right: Sequence[Factor]) -> None:
    """Make two products of the same size one, refined as far as both need.

    >>> heads, width, both = Factor(4), Factor(16), Factor(64)
    >>> equate([both], [heads, width])
    >>> leaves([both]) == leaves([heads, width])
    True
    """
    mine, theirs = leaves(left)[::-1], leaves(right)[::-1]
    if len(mine) != 1 or len(theirs) != 1:
        mine, theirs = _larger_than_one(mine), _larger_than_one(theirs)
    while mine and theirs:
        a, b = _root(mine.pop()), _root(theirs.pop())
        if a is b:
            continue
        if a.parts or b.parts:
            mine += a.parts[::-1] or (a,)
            theirs += b.parts[::-1] or (b,)
        elif a.size == b.size:
            _join(a, b)
        elif b.size and a.size % b.size == 0:
            mine += _split(a, b.size)[::-1]
            theirs.append(b)
        elif a.size and b.size % a.size == 0:
            theirs += _split(b, a.size)[::-1]
            mine.append(a)
        else:
            _freeze_segment(a, b, mine, theirs)
    freeze(mine + theirs)


def equal(left: Iterable[Factor], right: Iterable[Factor]) -> None:
    """Take note that axes are as long as others, one by one."""
    for a, b in zip(left, right):
        equate([a], [b])


def equate_reshaped(left: Dims, right: Dims) -> None:
    """Compare the axes of an array before and after a reshape.

    Axes of size 1 are the same where they stand at the same place, in their order.
    """
    if any(dim.size == 0 for dim in (*left, *right)):
        return freeze((*left, *right))
    equate(
        [dim for dim in left if dim.size > 1], [dim for dim in right if dim.size > 1]
    )
    others = _ones(right)
    for place, ones in _ones(left).items():
        for one, other in zip(ones, others.get(place, ())):
            equate([one], [other])


def _ones(dims: Dims) -> dict[int, list[Factor]]:
    """Group the axes of size 1 by the number of elements before them."""
    found: dict[int, list[Factor]] = {}
    before = 1
    for dim in dims:
        if dim.size == 1:
            found.setdefault(before, []).append(dim)
        before *= dim.size
    return found


def _larger_than_one(dims: list[Factor]) -> list[Factor]:
    return [dim for dim in dims if dim.size != 1]


def _root(factor: Factor) -> Factor:
    while factor.same is not None:
        if factor.same.same is not None:
            factor.same = factor.same.same
        factor = factor.same
    return factor


def _join(a: Factor, b: Factor) -> None:
    b.same = a
    a.is_frozen |= b.is_frozen
    a.is_kept |= b.is_kept


def _split(factor: Factor, outer: int) -> tuple[Factor, Factor]:
    flags = factor.is_frozen, factor.is_kept
    made = (
        Factor(outer, None, (), *flags),
        Factor(factor.size // outer, None, (), *flags),
    )
    factor.parts = made
    return made


def _freeze_segment(
    a: Factor, b: Factor, mine: list[Factor], theirs: list[Factor]
) -> None:
    """Freeze both sides up to where their products agree again."""
    freeze((a, b))
    left, right = a.size, b.size
    while left != right and (mine or theirs):
        side = mine if (left < right and mine) or not theirs else theirs
        factor = side.pop()
        freeze([factor])
        if side is mine:
            left *= factor.size
        else:
            right *= factor.size
