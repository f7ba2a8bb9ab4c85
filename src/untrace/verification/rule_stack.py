"""Rules that stand in one another, and the keys of those that were written before.

A rule calls functions that have rules, so the same ones are met many times over. A key
that says nothing of what is around its rule is used again, except in rules that it is
made of, which it would have to name as such. One that names a rule around it, or was
cut off for being too deep, is used again where the very same rules are around. One that
depends on variables around it, or that counts something, is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

Key = Any
# What a key may depend on, beside the rules around, which are known by their positions.
VARIABLES, DEPTH = -2, -1


class _Rule:
    """A rule with its key, the rules in it, and the outermost thing it depends on."""

    __slots__ = ("depth", "furthest", "inner", "is_kept", "key", "leads_back", "number")

    def __init__(self, number: int, depth: int) -> None:
        self.number, self.depth = number, depth
        self.inner = {number}
        self.furthest = depth
        self.is_kept = True
        self.key: Key = None
        self.leads_back = False  # to itself or a rule around it, or to variables there


class RuleStack:
    """The rules that are being written, outermost first, and those that were."""

    def __init__(self) -> None:
        self._open: list[_Rule] = []
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[tuple[int, tuple[int, ...] | None], _Rule] = {}

    def depends(self, on: int) -> None:
        """Note what the key of the rule at hand depends on."""
        for rule in self._open[-1:]:
            rule.furthest = min(rule.furthest, on)

    def keep_none(self) -> None:
        """Have the rules that are being written gone through every time."""
        for rule in self._open:
            rule.is_kept = False

    def distance(self, identity: Hashable) -> int:
        """How many rules further out a rule is met in itself; 0 if it is not."""
        number = self._numbers.get(identity)
        for position, rule in enumerate(self._open):
            if rule.number == number:
                self.depends(position)
                return len(self._open) - position
        return 0

    def key(
        self, identity: Hashable, make: Callable[[], tuple[Key, bool]]
    ) -> tuple[Key, bool]:
        """Find or make a key; also tell whether it, or one in it, leads back to a rule."""
        number = self._numbers.setdefault(identity, len(self._numbers))
        around = tuple([rule.number for rule in self._open])
        known = self._known.get((number, around))
        if known is None:
            known = self._known.get((number, None))
            if known is None or not known.inner.isdisjoint(around):
                known = self._make(number, around, make)
        is_bound = known.furthest < known.depth
        for rule in self._open[-1:]:
            rule.inner |= known.inner
        if is_bound:
            self.depends(known.furthest)
        return known.key, known.leads_back

    def _make(
        self, number: int, around: tuple[int, ...], make: Callable[[], tuple[Key, bool]]
    ) -> _Rule:
        rule = _Rule(number, len(around))
        self._open.append(rule)
        rule.key, rule.leads_back = make()
        self._open.pop()
        if rule.is_kept and rule.furthest > VARIABLES:
            is_bound = rule.furthest < rule.depth
            self._known[number, around if is_bound else None] = rule
        return rule
