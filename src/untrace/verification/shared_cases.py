"""The cases in which the rules of two programs are compared, for both of them.

The cases that come up when a program is differentiated are found by doing so. One of two
programs may go further there than the other: a primitive of a library has derivatives
that what it computes, written in its place, has not. So what comes up at one place of the
data flow in either program is compared in both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from untrace import jaxapi

Cases = tuple[jaxapi.RuleCase, ...]
Place = Collection[int]
"""Addresses of the rules of functions that are called at one place of the data flow."""


class SharedCases(jaxapi.RuleCases):
    """The cases of programs of which rules at the same places are compared.

    Args:
      programs: They are told apart by the addresses of their rules.
      find_places: Finds which rules are at the same places; asked only if it matters.
    """

    def __init__(
        self, *programs: Any, find_places: Callable[[], Iterable[Place]]
    ) -> None:
        super().__init__(*programs)
        self._find_places = find_places

    def find(self) -> dict[int, Cases]:
        """Find the cases that come up, at each place those of all its rules."""
        used = super().find()
        return shared(used, self._find_places()) if used else used


def shared(used: Mapping[int, Cases], places: Iterable[Place]) -> dict[int, Cases]:
    """Give all rules that are at one place, or at those of each other, the same cases."""
    groups: dict[int, set[int]] = {}
    for place in places:
        group = set(place).union(*[groups.get(rule, ()) for rule in place])
        groups.update(dict.fromkeys(group, group))
    found = dict(used)
    for rule, group in groups.items():
        cases = {case for mate in group for case in used.get(mate, ())}
        found[rule] = tuple(sorted(cases, reverse=True))
    return found
