"""Which equation of one program is which of another, as far as that is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from untrace.interpreters.comparing.sides import CONSTANT, INPUT, Operand, Side

RETURNED = -1
"""In the place of the equation that reads a value which the program returns."""


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
    partner: dict[int, int] = field(default_factory=dict)
    mate: dict[int, int] = field(default_factory=dict)
    values: dict[int, int] = field(default_factory=dict)

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
