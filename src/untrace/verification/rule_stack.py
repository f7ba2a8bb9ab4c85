"""Rules that stand in one another, and the keys of those that were written before.

A rule calls functions that have rules, so the same ones are met many times over. A key
that says nothing of what is around its rule is used again, except in rules that it is
made of, which it would have to name as such. One that names a rule around it, or was
cut off for being too deep, is used again where the very same rules are around. One that
depends on variables around it, or that counts something, is not kept.

A body is written as the rules in it are, so what is around it counts in the same way. The
bodies of loops and branches are gone through several times, and those in them again each
time: they are kept, too, for where the very same rules are around.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

Key = Any
Make = Callable[[], tuple[Key, bool]]
"""Makes a key, and tells whether it, or one in it, leads back to a rule."""
# What a key may depend on, beside the rules around, which are known by their positions.
VARIABLES, DEPTH = -2, -1


class _Part:
    """A rule or body with its key, the rules in it, and the outermost thing it depends on."""

    __slots__ = ("depth", "furthest", "inner", "is_kept", "key", "leads_back")

    def __init__(self, depth: int) -> None:
        self.depth = depth  # the rules around it
        self.inner: set[int] = set()
        self.furthest = depth
        self.is_kept = True
        self.key: Key = None
        self.leads_back = False  # to a rule in or around it, or to variables there


class RuleStack:
    """The rules that are being written, outermost first, and those that were."""

    def __init__(self) -> None:
        self._open: list[int] = []  # the numbers of rules
        self._parts: list[_Part] = []  # these rules, and the bodies between them
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[tuple[Hashable, tuple[int, ...] | None], _Part] = {}

    def depends(self, on: int) -> None:
        """Note what the key of the rule or body at hand depends on."""
        for part in self._parts[-1:]:
            part.furthest = min(part.furthest, on)

    def keep_none(self) -> None:
        """Have what is being written gone through every time."""
        for part in self._parts:
            part.is_kept = False

    def distance(self, identity: Hashable) -> int:
        """How many rules further out a rule is met in itself; 0 if it is not."""
        number = self._numbers.get(identity)
        for position, other in enumerate(self._open):
            if other == number:
                self.depends(position)
                return len(self._open) - position
        return 0

    def key(self, identity: Hashable, make: Make) -> tuple[Key, bool]:
        """Find or make a key; also tell whether it, or one in it, leads back to a rule."""
        number = self._numbers.setdefault(identity, len(self._numbers))
        around = tuple(self._open)
        known = self._known.get((number, around))
        if known is None:
            known = self._known.get((number, None))
            if known is None or not known.inner.isdisjoint(around):
                known = self._make(make, number)
                is_bound = known.furthest < known.depth
                self._keep(known, number, around if is_bound else None)
        return self._used(known)

    def body(self, body: Hashable, make: Make) -> tuple[Key, bool]:
        """Find or make the key of a body; also tell whether a rule in it leads back.

        Args:
          body: All that the key depends on, but for what is around it.
          make: Makes the key.
        """
        around = tuple(self._open)
        known = self._known.get((body, around))
        if known is None:
            known = self._make(make)
            self._keep(known, body, around)
        return self._used(known)

    def _make(self, make: Make, number: int | None = None) -> _Part:
        part = _Part(len(self._open))
        self._parts.append(part)
        if number is not None:
            part.inner.add(number)
            self._open.append(number)
        part.key, part.leads_back = make()
        if number is not None:
            self._open.pop()
        self._parts.pop()
        return part

    def _keep(
        self, part: _Part, name: Hashable, around: tuple[int, ...] | None
    ) -> None:
        if part.is_kept and part.furthest > VARIABLES:
            self._known[name, around] = part

    def _used(self, part: _Part) -> tuple[Key, bool]:
        """Have what is around a part depend on what it depends on."""
        for outer in self._parts[-1:]:
            outer.inner |= part.inner
        if part.furthest < part.depth:
            self.depends(part.furthest)
        return part.key, part.leads_back
