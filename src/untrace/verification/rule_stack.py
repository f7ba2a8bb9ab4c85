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
Around = tuple[tuple[int, Key], ...]
"""The rules around something: their numbers, and how they are written if met again."""
# What a key may depend on, beside the rules around, which are known by their positions.
VARIABLES, DEPTH = -2, -1
_BODY = -1


class _Part:
    """A rule or body with its key, the rules in it, and the outermost thing it depends on."""

    __slots__ = (
        *("depth", "furthest", "inner", "is_kept", "is_met", "key", "leads_back"),
        *("number", "written"),
    )

    def __init__(self, depth: int, number: int, written: Key = None) -> None:
        self.depth = depth  # the rules around it
        self.number = number  # of a rule
        self.written = written  # its key, once that is known, where it is met again
        self.is_met = False
        self.inner = set[int]() if number == _BODY else {number}
        self.furthest = depth
        self.is_kept = True
        self.key: Key = None
        self.leads_back = False  # to a rule in or around it, or to variables there

    @property
    def is_bound(self) -> bool:
        """Whether the key depends on what is around."""
        return self.furthest < self.depth


class RuleStack:
    """The rules that are being written, outermost first, and those that were.

    Args:
      is_folding: Whether rules that are the same when written at length get one key.
    """

    def __init__(self, is_folding: bool = False) -> None:
        self._open: list[_Part] = []  # rules
        self._parts: list[_Part] = []  # these rules, and the bodies between them
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[tuple[Hashable, Around | None], _Part] = {}
        self._is_folding = is_folding
        self._shorter: dict[Key, Key] = {}

    def depends(self, on: int) -> None:
        """Note what the key of the rule or body at hand depends on."""
        for part in self._parts[-1:]:
            part.furthest = min(part.furthest, on)

    def keep_none(self) -> None:
        """Have what is being written gone through every time."""
        for part in self._parts:
            part.is_kept = False

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

    def key(self, identity: Hashable, make: Make) -> tuple[Key, bool]:
        """Find or make a key; also tell whether it, or one in it, leads back to a rule."""
        number = self._numbers.setdefault(identity, len(self._numbers))
        around = self._around()
        known = self._known.get((number, around))
        if known is None:
            known = self._known.get((number, None))
            if known is None or not known.inner.isdisjoint(n for n, _ in around):
                known = self._made(number, around, make)
        return self._used(known)

    def body(self, body: Hashable, make: Make) -> tuple[Key, bool]:
        """Find or make the key of a body; also tell whether a rule in it leads back.

        Args:
          body: All that the key depends on, but for what is around it.
          make: Makes the key.
        """
        around = self._around()
        known = self._known.get((body, around))
        if known is None:
            known = self._written(_Part(len(self._open), _BODY), make)
            self._keep(known, body, around)
        return self._used(known)

    def _around(self) -> Around:
        return tuple([(rule.number, rule.written) for rule in self._open])

    def _made(self, number: int, around: Around, make: Make) -> _Part:
        rule = self._written(_Part(len(around), number), make)
        is_lasting = rule.is_kept and rule.furthest > VARIABLES
        if is_lasting and self._is_folding and not rule.is_bound:
            self._fold(rule, make)
        self._keep(rule, number, around if rule.is_bound else None)
        return rule

    def _fold(self, rule: _Part, make: Make) -> None:
        """Give a rule the shorter key, if it has one, or find its own longer one."""
        shorter = self._shorter.get(rule.key)
        if shorter is not None:
            rule.key = shorter
        elif rule.is_met and all(other.written is None for other in self._open):
            again = _Part(rule.depth, rule.number, rule.key)
            self._shorter[self._written(again, make).key] = rule.key

    def _written(self, part: _Part, make: Make) -> _Part:
        self._parts.append(part)
        if part.number != _BODY:
            self._open.append(part)
        part.key, part.leads_back = make()
        if part.number != _BODY:
            self._open.pop()
        self._parts.pop()
        return part

    def _keep(self, part: _Part, name: Hashable, around: Around | None) -> None:
        if part.is_kept and part.furthest > VARIABLES:
            self._known[name, around] = part

    def _used(self, part: _Part) -> tuple[Key, bool]:
        """Have what is around a part depend on what it depends on."""
        for outer in self._parts[-1:]:
            outer.inner |= part.inner
        if part.is_bound:
            self.depends(part.furthest)
        return part.key, part.leads_back
