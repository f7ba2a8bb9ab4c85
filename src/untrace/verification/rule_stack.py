"""Rules that stand in one another, and the keys of those that were written before.

A rule calls functions that have rules, so the same ones are met many times over. A key
that says nothing of what is around its rule is used again, except in rules that it is
made of, which it would have to name as such. One that names a rule around it, or was
cut off for being too deep, is used again where the very same rules are around. One that
depends on variables around it, or that counts something, is not kept.

Rules that lead back to themselves may be written at any length: `f` whose rule calls `f`
is what `f` is whose rule calls `g`, the rule of which is the same and calls `g`. So a key
that leads back to its own rule, and to nothing around that, is also made with itself in
the places where it is met again. What has that longer key gets the shorter one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

Key = Any
# What a key may depend on, beside the rules around, which are known by their positions.
VARIABLES, DEPTH = -2, -1


class _Rule:
    """A rule with its key, the rules in it, and the outermost thing it depends on."""

    __slots__ = (
        *("depth", "furthest", "inner", "is_kept", "is_met", "key", "leads_back"),
        *("number", "written"),
    )

    def __init__(self, number: int, depth: int, written: Key = None) -> None:
        self.number, self.depth = number, depth
        self.written = written  # its key, once that is known, where it is met again
        self.is_met = False
        self.inner = {number}
        self.furthest = depth
        self.is_kept = True
        self.key: Key = None
        self.leads_back = False  # to itself or a rule around it, or to variables there

    @property
    def is_bound(self) -> bool:
        """Whether the key depends on what is around the rule."""
        return self.furthest < self.depth


class RuleStack:
    """The rules that are being written, outermost first, and those that were.

    Args:
      is_folding: Whether rules that are the same when written at length get one key.
    """

    def __init__(self, is_folding: bool = False) -> None:
        self._open: list[_Rule] = []
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[tuple[int, tuple[Key, ...] | None], _Rule] = {}
        self._is_folding = is_folding
        self._shorter: dict[Key, Key] = {}

    def depends(self, on: int) -> None:
        """Note what the key of the rule at hand depends on."""
        for rule in self._open[-1:]:
            rule.furthest = min(rule.furthest, on)

    def keep_none(self) -> None:
        """Have the rules that are being written gone through every time."""
        for rule in self._open:
            rule.is_kept = False

    def met_again(self, identity: Hashable) -> Key | None:
        """Write a rule that is met in itself; None for others."""
        number = self._numbers.get(identity)
        for position, rule in enumerate(self._open):
            if rule.number == number:
                rule.is_met = True
                self.depends(position)
                if rule.written is not None:
                    return rule.written
                return ("again", len(self._open) - position)
        return None

    def key(
        self, identity: Hashable, make: Callable[[], tuple[Key, bool]]
    ) -> tuple[Key, bool]:
        """Find or make a key; also tell whether it, or one in it, leads back to a rule."""
        number = self._numbers.setdefault(identity, len(self._numbers))
        numbers = [rule.number for rule in self._open]
        around = tuple([(rule.number, rule.written) for rule in self._open])
        known = self._known.get((number, around))
        if known is None:
            known = self._known.get((number, None))
            if known is None or not known.inner.isdisjoint(numbers):
                known = self._made(number, around, make)
        for rule in self._open[-1:]:
            rule.inner |= known.inner
        if known.is_bound:
            self.depends(known.furthest)
        return known.key, known.leads_back

    def _made(
        self,
        number: int,
        around: tuple[Key, ...],
        make: Callable[[], tuple[Key, bool]],
    ) -> _Rule:
        rule = self._written(_Rule(number, len(around)), make)
        if not rule.is_kept or rule.furthest <= VARIABLES:
            return rule
        if self._is_folding and not rule.is_bound:
            self._fold(rule, make)
        self._known[number, around if rule.is_bound else None] = rule
        return rule

    def _fold(self, rule: _Rule, make: Callable[[], tuple[Key, bool]]) -> None:
        """Give a rule the shorter key, if it has one, or find its own longer one."""
        shorter = self._shorter.get(rule.key)
        if shorter is not None:
            rule.key = shorter
        elif rule.is_met and all(other.written is None for other in self._open):
            again = _Rule(rule.number, rule.depth, rule.key)
            self._shorter[self._written(again, make).key] = rule.key

    def _written(self, rule: _Rule, make: Callable[[], tuple[Key, bool]]) -> _Rule:
        self._open.append(rule)
        rule.key, rule.leads_back = make()
        self._open.pop()
        return rule
