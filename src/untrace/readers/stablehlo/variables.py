"""Which variable each value of a function is held in while the function is evaluated.

Mostly that is its number, so that values that are computed alike are computed once. A
value that a block computes again has a variable of its own, and so what is made of it:
XLA fuses operations by their uses, and so rounds otherwise where one of two is missing.
"""

from __future__ import annotations

from untrace.jaxapi.module_types import Block, Value
from untrace.readers.stablehlo.numbering import Constant, Numbering


class Variables:
    """The variables of the values of a function.

    Attributes:
      of: The variable of each value.
      repeated: What each block computes again: its variables, and their numbers.
    """

    def __init__(
        self, block: Block, numbering: Numbering, numbers: dict[Value, int]
    ) -> None:
        """Take the body of a function and the numbers of all its values."""
        self.of = dict(numbers)
        self.repeated: dict[Block, dict[int, int]] = {}
        self._numbering = numbering
        self._numbers = numbers
        self._walk(block)

    def captured(self, block: Block) -> set[int]:
        """Return the variables that a region takes from outside."""
        used, own = used_values(block)
        return {self.of[value] for value in used - own}

    def _walk(self, block: Block) -> None:
        made: set[int] = set()
        repeated = self.repeated[block] = {}
        for operation in block.operations:
            numbers = [self._numbers[value] for value in operation.operands]
            given = dict(zip(numbers, (self.of[value] for value in operation.operands)))
            taken = self._numbering.taken(operation, numbers)
            regions = operation.regions if taken is None else (taken,)
            for inner in regions:
                for variable in self.captured(inner):
                    given[self._numbering.first(variable)] = variable
            for inner in regions:
                for value in inner.arguments:
                    self.of[value] = given.get(self._numbers[value], self.of[value])
                self._walk(inner)
            for value in operation.results:
                number = self._numbers[value]
                is_known = isinstance(self._numbering.keys[number], Constant)
                if number in given:  # handed on
                    self.of[value] = given[number]
                elif number in made and not is_known:
                    self.of[value] = self._numbering.again(number)
                    repeated[self.of[value]] = number
                made.add(number)


def used_values(block: Block) -> tuple[set[Value], set[Value]]:
    """Return the values that a block and its regions use, and those that they make."""
    used, own = set(block.returned), set(block.arguments)
    for operation in block.operations:
        used.update(operation.operands)
        own.update(operation.results)
        for inner in operation.regions:
            inner_used, inner_own = used_values(inner)
            used |= inner_used
            own |= inner_own
    return used, own
