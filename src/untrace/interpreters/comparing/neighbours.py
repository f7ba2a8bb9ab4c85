"""Pair what is left of two programs by what it reads and what reads it.

What is the same given the pairs so far is paired at once. Of the rest the pair comes next
that most speaks for (a heap), and each new pair speaks for its neighbours.
"""

from __future__ import annotations

import collections
import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from untrace.interpreters.comparing.matching import RETURNED, Matching
from untrace.interpreters.comparing.sides import CONSTANT, INPUT, Operand, Side
from untrace.verification.graph import plain_call

MAX_USES = 16
"""Uses of a value that are looked at to judge one pair."""
SPREAD = 2
"""How far apart two readers of one value may be among all its readers to be tried."""

_Users = dict[Operand, list[tuple[int, int]]]


class Neighbours:
    """Pairs what is left by what it reads and what reads it."""

    def __init__(self, found: Matching) -> None:
        self.found = found
        self.users = _users(found.before)
        self.others = _users(found.after)
        self.outputs = _output_places(found.before)
        self.other_outputs = _output_places(found.after)
        self.heap: list[tuple[tuple[int, ...], int, int]] = []
        self.fresh: list[tuple[int, int]] = []

    def match(self) -> None:
        """Pair until nothing more speaks for a pair."""
        found = self.found
        for position, other in found.inputs.items():
            self._readers(Operand(INPUT, position), Operand(INPUT, other))
        for operand, other in zip(found.before.results, found.after.results):
            self._consider_makers(operand, other)
        self.fresh += found.partner.items()
        self._spread()
        self._match_best()
        mine, theirs = (by_number(side) for side in (found.before, found.after))
        for number, indices in mine.items():
            free = [j for j in theirs.get(number, ()) if j not in found.mate]
            for index in indices:
                if free and index not in found.partner:
                    self._pair(index, free.pop(0))
        self._spread()
        self._match_best()

    def _match_best(self) -> None:
        """Pair what most speaks for, first."""
        found = self.found
        while self.heap:
            _, index, other = heapq.heappop(self.heap)
            if found.is_free(index, other) and self._may_pair(index, other):
                self._pair(index, other)
                self._spread()

    def _pair(self, index: int, other: int) -> None:
        self.found.pair(index, other)
        self.fresh.append((index, other))

    def _spread(self) -> None:
        """Look at the neighbours of new pairs; what is the same is paired at once."""
        while self.fresh:
            index, other = self.fresh.pop()
            before, after = self.found.before, self.found.after
            for operand, mate in zip(before.operands[index], after.operands[other]):
                self._consider_makers(operand, mate)
            for position in range(len(before.heads[index].types)):
                self._readers(Operand(index, position), Operand(other, position))

    def _readers(self, operand: Operand, other: Operand) -> None:
        """Consider the readers of two values that are the same."""
        mine = self._free(self.users.get(operand, ()), self.found.partner)
        theirs = self._free(self.others.get(other, ()), self.found.mate)
        if not mine or not theirs:
            return
        for slot, readers in mine.items():
            others = theirs.get(slot, [])
            exact: dict[Any, collections.deque[int]] = {}
            for mate in others:
                head = self.found.after.heads[mate]
                exact.setdefault(head, collections.deque()).append(mate)
            for place, index in enumerate(readers):
                if not self._pair_exact(index, exact):
                    for mate in others[max(0, place - SPREAD) : place + SPREAD + 1]:
                        self._consider(index, mate)

    def _pair_exact(
        self, index: int, others: Mapping[Any, collections.deque[int]]
    ) -> bool:
        if index in self.found.partner:
            return True
        waiting = others.get(self.found.before.heads[index])
        for _ in range(min(SPREAD, len(waiting or ()))):
            mate = waiting.popleft() if waiting else index
            if mate in self.found.mate:
                continue
            if self.found.have_same_operands(index, mate):
                self._pair(index, mate)
                return True
            if waiting is not None:
                waiting.append(mate)
        return False

    @staticmethod
    def _free(
        readers: Sequence[tuple[int, int]], paired: Mapping[int, int]
    ) -> dict[int, list[int]]:
        found: dict[int, list[int]] = collections.defaultdict(list)
        for index, slot in readers:
            if index not in paired:
                found[slot].append(index)
        return found

    def _consider_makers(self, operand: Operand, other: Operand) -> None:
        if operand.owner >= 0 and other.owner >= 0:
            self._consider(operand.owner, other.owner)

    def _consider(self, index: int, other: int) -> None:
        found = self.found
        if not found.is_free(index, other):
            return
        if found.before.numbers[index] == found.after.numbers[other]:
            self._pair(index, other)
        else:
            score = tuple([-s for s in self._score(index, other)])
            heapq.heappush(self.heap, (score, index, other))

    def _score(self, index: int, other: int) -> tuple[int, ...]:
        """What speaks for a pair: alike in itself, then its neighbours."""
        head, mate = self.found.before.heads[index], self.found.after.heads[other]
        n_same = self._n_operands(index, other) + self._n_uses(index, other)
        is_alike = head.primitive == mate.primitive
        return (
            is_alike,
            is_alike and n_same > 1,
            head == mate,
            head.params == mate.params,
            n_same,
            head.types == mate.types,
        )

    def _may_pair(self, index: int, other: int) -> bool:
        """Whether two equations stand at the same place, if they are not alike."""
        head, mate = self.found.before.heads[index], self.found.after.heads[other]
        if head.primitive == mate.primitive:
            return True
        if len(head.types) != len(mate.types):
            return False
        eqns = self.found.before.eqns[index], self.found.after.eqns[other]
        if any(plain_call(eqn) is not None for eqn in eqns):  # it may be opened
            return False
        values = [o for o in self.found.before.operands[index] if o.owner != CONSTANT]
        reads = self._n_operands(index, other) or not values
        return bool(reads and self._n_uses(index, other))

    def _n_operands(self, index: int, other: int) -> int:
        mine = self.found.before.operands[index][:MAX_USES]
        theirs = self.found.after.operands[other]
        values = [(a, b) for a, b in zip(mine, theirs) if a.owner != CONSTANT]
        return sum(self.found.is_same(a, b) for a, b in values)

    def _n_uses(self, index: int, other: int) -> int:
        theirs = set(self._uses(other, self.others, self.other_outputs))
        partner = self.found.partner
        mine = self._uses(index, self.users, self.outputs)
        return sum(
            (position, partner.get(reader) if reader >= 0 else reader, slot) in theirs
            for position, reader, slot in mine
        )

    def _uses(
        self,
        index: int,
        users: _Users,
        outputs: Mapping[int, Sequence[tuple[int, int]]],
    ) -> Iterator[tuple[int, int, int]]:
        for position, place in outputs.get(index, ()):
            yield position, RETURNED, place
        side = self.found.before if users is self.users else self.found.after
        for position in range(len(side.heads[index].types)):
            for reader, slot in users.get(Operand(index, position), ())[:MAX_USES]:
                yield position, reader, slot


def _output_places(side: Side) -> dict[int, list[tuple[int, int]]]:
    """The results of each equation that the program returns, and where."""
    found: dict[int, list[tuple[int, int]]] = collections.defaultdict(list)
    for place, operand in enumerate(side.results):
        found[operand.owner].append((operand.position, place))
    return found


def by_number(side: Side) -> dict[int, list[int]]:
    """The equations that compute each number."""
    found: dict[int, list[int]] = collections.defaultdict(list)
    for index, number in enumerate(side.numbers):
        found[number].append(index)
    return found


def _users(side: Side) -> _Users:
    users: _Users = collections.defaultdict(list)
    for index in side.sequence():
        for slot, operand in enumerate(side.operands[index]):
            if operand.owner != CONSTANT:
                users[operand].append((index, slot))
    return users
