"""Find which equation of one program is which of another, in their data flow.

In this order, and each in time that is linear in equations and operands:

1. Equations that compute the same from the same inputs (hash-consing downwards).
2. Of the rest, those from which the same is computed (hash-consing upwards).
3. Of the rest, neighbours of what is paired already: first those that are alike but for
   operands, then those of the same primitive, at last those that stand at the same place
   of the data flow. The pair that most speaks for comes first, and each new pair speaks
   for its neighbours.

What is left is in one of the programs only. The order of equations decides nothing but
ties, so what was moved is found all the same. The idea of matching downwards, upwards and
then by neighbours is that of GumTree (Falleri et al. 2014), for graphs instead of trees.
"""

from __future__ import annotations

import collections
import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from untrace.interpreters.sides import CONSTANT, INPUT, Operand, Side
from untrace.verification.graph import plain_call

MAX_USES = 16
"""Uses of a value that are looked at to judge one pair."""
SPREAD = 2
"""How far apart two readers of one value may be among all its readers to be tried."""

RETURNED = -1
"""In the place of the equation that reads a value which the program returns."""

_Users = dict[Operand, list[tuple[int, int]]]


@dataclass(slots=True)
class Matching:
    """Pairs of equations.

    Attributes:
      before, after: The two programs.
      inputs: The input of the second program that each of the first is.
      partner: The equation of the second program that each of the first is.
      mate: The reverse.
      values: What the second program computes in the place of what the first does, by
        their numbers: several equations may compute one value.
    """

    before: Side
    after: Side
    inputs: Mapping[int, int]
    partner: dict[int, int] = field(default_factory=dict[int, int])
    mate: dict[int, int] = field(default_factory=dict[int, int])
    values: dict[int, int] = field(default_factory=dict[int, int])

    def is_same(self, operand: Operand, other: Operand) -> bool:
        """Whether two operands are the same value, as far as pairs tell."""
        if operand.owner == CONSTANT or other.owner == CONSTANT:
            return operand == other
        if operand.owner == INPUT or other.owner == INPUT:
            return (
                operand.owner == other.owner
                and self.inputs.get(operand.position) == other.position
            )
        if operand.position != other.position:
            return False
        number = self.before.numbers[operand.owner]
        return (
            self.partner.get(operand.owner) == other.owner
            or self.values.get(number) == self.after.numbers[other.owner]
        )

    def have_same_operands(self, index: int, other: int) -> bool:
        """Whether two equations read the same values, in the same order."""
        mine, theirs = self.before.operands[index], self.after.operands[other]
        return len(mine) == len(theirs) and all(map(self.is_same, mine, theirs))

    def is_exact(self, index: int, other: int) -> bool:
        """Whether two equations are the same."""
        heads = self.before.heads[index], self.after.heads[other]
        return heads[0] == heads[1] and self.have_same_operands(index, other)

    def is_live(self, index: int, other: int) -> bool:
        """Whether one of two equations is needed."""
        return self.before.live[index] or self.after.live[other]

    def pair(self, index: int, other: int) -> None:
        """Take two equations as one."""
        self.partner[index], self.mate[other] = other, index
        number = self.before.numbers[index]
        self.values.setdefault(number, self.after.numbers[other])

    def is_missing(self, index: int) -> bool:
        """Whether only the first program has a statement, and needs it."""
        number = self.before.numbers[index]
        is_known = index in self.partner or number in self.values
        return self.before.live[index] and not is_known

    def missing(self) -> list[int]:
        """The statements that only the first program has, and needs."""
        return [i for i in self.before.sequence() if self.is_missing(i)]

    def new(self) -> list[int]:
        """The statements that only the second program has, and needs."""
        known = set(self.values.values())
        side = self.after
        return [
            i
            for i in side.sequence()
            if side.live[i] and i not in self.mate and side.numbers[i] not in known
        ]

    def is_free(self, index: int, other: int) -> bool:
        """Whether neither of two equations is paired."""
        return index not in self.partner and other not in self.mate


def match(before: Side, after: Side, inputs: Mapping[int, int]) -> Matching:
    """Pair the equations of two programs.

    Args:
      before: The first program.
      after: The second program, numbered in the same table.
      inputs: The input of the second program that each of the first is.
    """
    found = Matching(before, after, inputs)
    _match_down(found)
    if max(len(before.heads), len(after.heads)) > len(found.partner):
        _match_up(found)
        _Neighbours(found).match()
    return found


def _match_down(found: Matching) -> None:
    """Pair equations that compute the same; of several those that are used alike."""
    mine, theirs = (_by_number(side) for side in (found.before, found.after))
    readers: list[dict[int, list[int]]] = []
    for number, indices in mine.items():
        others = theirs.get(number)
        if others is None:
            continue
        found.values[number] = number
        pairs = zip(indices, others)
        if len(indices) != len(others):  # the rest by what is found to read it
            readers = readers or [_readers(s) for s in (found.before, found.after)]
            pairs = _used_alike(indices, others, readers)
        for index, other in pairs:
            found.pair(index, other)


def _by_number(side: Side) -> dict[int, list[int]]:
    found: dict[int, list[int]] = collections.defaultdict(list)
    for index, number in enumerate(side.numbers):
        found[number].append(index)
    return found


def _readers(side: Side) -> dict[int, list[int]]:
    """The numbers of the equations that read what each makes."""
    found: dict[int, list[int]] = collections.defaultdict(list)
    for index, operands in enumerate(side.operands):
        for operand in operands:
            found[operand.owner].append(side.numbers[index])
    for place, operand in enumerate(side.results):
        found[operand.owner].append(RETURNED - place)
    return found


def _used_alike(
    indices: Sequence[int],
    others: Sequence[int],
    readers: Sequence[Mapping[int, Sequence[int]]],
) -> Iterator[tuple[int, int]]:
    """Pair those that are read by the same, if there are as many of them."""
    groups: dict[Any, tuple[list[int], list[int]]] = {}
    for which, each in enumerate((indices, others)):
        for index in each:
            key = tuple(readers[which].get(index, ()))
            groups.setdefault(key, ([], []))[which].append(index)
    for mine, theirs in groups.values():
        if len(mine) == len(theirs):
            yield from zip(mine, theirs)


def _match_up(found: Matching) -> None:
    """Pair equations that are alike and whose results are used in the same way."""
    table: dict[Any, int] = {}
    sides = (found.before, found.partner), (found.after, found.mate)
    mine, theirs = (_upward(side, known, table) for side, known in sides)
    for key, indices in mine.items():
        others = theirs.get(key, [])
        if len(indices) == len(others):
            for index, other in zip(indices, others):
                found.pair(index, other)


def _upward(
    side: Side, known: Mapping[int, int], table: dict[Any, int]
) -> dict[int, list[int]]:
    """Number the equations that are not paired by what is made of their results."""
    uses: dict[int, list[tuple[int, int, int]]] = collections.defaultdict(list)
    for position, operand in enumerate(side.results):
        uses[operand.owner].append((operand.position, RETURNED, position))
    found: dict[int, list[int]] = collections.defaultdict(list)
    for index in reversed(side.sequence()):
        if index in known:
            continue
        key = (side.heads[index], tuple(sorted(uses[index])))
        number = table.setdefault(key, len(table))
        found[number].append(index)
        for slot, operand in enumerate(side.operands[index]):
            uses[operand.owner].append((operand.position, number, slot))
    return found


def _users(side: Side) -> _Users:
    users: _Users = collections.defaultdict(list)
    for index in side.sequence():
        for slot, operand in enumerate(side.operands[index]):
            if operand.owner != CONSTANT:
                users[operand].append((index, slot))
    return users


class _Neighbours:
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
        mine, theirs = (_by_number(side) for side in (found.before, found.after))
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
