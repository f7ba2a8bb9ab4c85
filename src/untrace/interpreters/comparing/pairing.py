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
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from untrace.interpreters.comparing.matching import RETURNED, Matching
from untrace.interpreters.comparing.neighbours import Neighbours, by_number
from untrace.interpreters.comparing.sides import Side


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
        Neighbours(found).match()
    return found


def _match_down(found: Matching) -> None:
    """Pair equations that compute the same; of several those that are used alike."""
    mine, theirs = (by_number(side) for side in (found.before, found.after))
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
