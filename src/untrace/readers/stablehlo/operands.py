"""Which values a template is given: often not the operands, but what they are made of.

JAX's functions broadcast, clamp and convert by themselves; where an operand is what they
would make of another value, they take that one. JAX broadcasts anew for each use, so a
broadcast with several uses is a value of its own: stated otherwise, the module would be
lowered to several broadcasts, which XLA may fuse, and so round, in another way.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from untrace.jaxapi.module_types import Block, Module, Operation, TensorType, Value
from untrace.readers.stablehlo.elementwise import IMPLIES_BROADCASTS
from untrace.readers.stablehlo.identities import exact
from untrace.readers.stablehlo.numbering import Constant, Made, Numbering
from untrace.readers.stablehlo.static_shapes import DATA_OPERANDS
from untrace.readers.stablehlo.variables import Variables

_PREDICATE = TensorType((), np.dtype(bool))


class Operands:
    """The operands that the operations of a function are stated with."""

    def __init__(
        self,
        module: Module,
        block: Block,
        numbering: Numbering,
        numbers: dict[Value, int],
        variables: Variables,
    ) -> None:
        """Take the numbers of all values of a function; no other ones can be used."""
        self.module = module
        self.numbering = numbering
        self.numbers = numbers
        self.variables = variables.of
        self._visible = set(numbers.values())
        self._n_uses = _uses(block)
        self._makers = _makers(block)

    def of(self, operation: Operation) -> list[int]:
        """Return the variables that a template is given, before broadcasts it implies."""
        given = [self.variables[value] for value in operation.operands]
        numbers = [self.numbers[value] for value in operation.operands]
        if operation.name == "stablehlo.while":
            bound = self.numbering.unchanged(self.module, operation.regions[1])
            return [one for i, one in enumerate(given) if i not in bound]
        name = str(operation.attributes.get("call_target_name", operation.name))
        if name in DATA_OPERANDS:
            return given[: DATA_OPERANDS[name]]
        if operation.name in IMPLIES_BROADCASTS:
            return self._before_broadcasts(operation)
        if self.numbering.taken(operation, numbers) is not None:
            return []
        if operation.name == "stablehlo.case":
            made = self.numbering.made(numbers[0])
            if made is not None and self.decides(made, len(operation.regions)):
                index = 1 if made.name == "stablehlo.clamp" else 0
                return [self._operand(operation.operands[0], made, index)]
        return given

    def decides(self, made: Made, n_branches: int) -> bool:
        """Whether a value is a number of a branch as `lax.cond` and `switch` make it."""
        keys = self.numbering.keys
        if made.name == "stablehlo.convert":
            (source,) = made.operands
            is_bool = self.numbering.type(source) == _PREDICATE
            return n_branches == 2 and is_bool and source in self._visible
        if made.name != "stablehlo.clamp" or made.operands[1] not in self._visible:
            return False
        low, high = (keys[made.operands[i]] for i in (0, 2))
        are_known = isinstance(low, Constant) and isinstance(high, Constant)
        return are_known and (_integer(low), _integer(high)) == (0, n_branches - 1)

    def _before_broadcasts(self, operation: Operation) -> list[int]:
        """Put values in the place of their broadcasts, which JAX's functions imply.

        One operand keeps its shape, which is that of the result.
        """
        given = [self.variables[value] for value in operation.operands]
        plain = [self._broadcast_of(value) for value in operation.operands]
        if all(one is not None for one in plain):
            return given
        return [one if before is None else before for one, before in zip(given, plain)]

    def _broadcast_of(self, value: Value) -> int | None:
        """Return the value that another broadcasts: a scalar, or one of sizes 1."""
        number = self.numbers[value]
        key = self.numbering.keys[number]
        if isinstance(key, Constant):
            is_array = key.element and key.type.shape
            scalar = key._replace(type=key.type._replace(shape=()))
            return self.numbering.number(scalar) if is_array else None
        made = self.numbering.made(number)
        if made is None or made.name != "stablehlo.broadcast_in_dim":
            return None
        if self._n_uses[value] > 1:
            return None
        (source,) = made.operands
        before, after = self.numbering.type(source), self.numbering.type(number)
        if not isinstance(before, TensorType) or not isinstance(after, TensorType):
            return None
        if source not in self._visible:
            return None
        n_axes = len(before.shape)
        is_implied = n_axes == 0 or (
            n_axes == len(after.shape)
            and made.attributes == exact({"broadcast_dimensions": (*range(n_axes),)})
        )
        return self._operand(value, made, 0) if is_implied else None

    def _operand(self, value: Value, made: Made, index: int) -> int:
        """Return the variable of an operand of what makes a value."""
        number, operation = made.operands[index], self._makers.get(value)
        operands = () if operation is None else operation.operands[index : index + 1]
        for operand in operands:
            if self.numbers[operand] == number:
                return self.variables[operand]
        return number


def _uses(block: Block) -> Counter[Value]:
    """Return how often a block and its regions use each value."""
    found = Counter(block.returned)
    for operation in block.operations:
        found.update(operation.operands)
        for inner in operation.regions:
            found.update(_uses(inner))
    return found


def _makers(block: Block) -> dict[Value, Operation]:
    """Return the operation of a block and its regions that makes each value."""
    found: dict[Value, Operation] = {}
    for operation in block.operations:
        found.update(dict.fromkeys(operation.results, operation))
        for inner in operation.regions:
            found.update(_makers(inner))
    return found


def _integer(constant: Constant) -> int:
    return int(np.frombuffer(constant.content, constant.type.dtype)[0])
