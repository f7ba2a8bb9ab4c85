"""Value numbering: values of two modules have one number if they are computed alike.

A value is known by the operation that makes it, its attributes, the types of its results
and the numbers of its operands; regions by their results, as functions of arguments that
are numbered by depth. So names, locations, order, repeated constants, dead code and the
cutting of a program into functions do not count, and all else does. Operations with
effects take the number of the effect before them, which keeps their order.

What counts as the same besides, since StableHLO and CHLO define it so: `dot` and
`dot_general`; a conjugate and what it is made of; a transposition that moves nothing, a
conversion, reshape or broadcast to the type that a value has; a constant of equal elements
and the broadcast of one; `if` and `case` of the converted predicate; a `case` of one
branch, or of a constant, and that branch; a choice with and without the results that all
branches give alike; a loop with and without the carried values that its body hands on,
also through calls and other loops. Shardings do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from untrace.jaxapi.module_types import (
    Block,
    Function,
    Module,
    Operation,
    Symbol,
    TensorType,
    Type,
    Value,
)
from untrace.readers.stablehlo.identities import (
    CALLS,
    KEEPING,
    MOVES,
    SHARDINGS,
    as_general,
    exact,
    has_effects,
    is_in_place,
    keeps_order,
    unchanged_values,
)

NO_EFFECT = -1
_MARKED = "mhlo.frontend_attributes"
"""What a call says to XLA, for instance where it is computed."""


class TooLargeError(Exception):
    """Functions that call functions make too many operations to compare."""


class Constant(NamedTuple):
    """A constant by its content; `element` is the one that all others equal, if any."""

    type: TensorType
    content: bytes
    element: bool


class Made(NamedTuple):
    """What an operation makes, all results together."""

    name: str
    attributes: Any
    types: tuple[Type, ...]
    operands: tuple[int, ...]
    regions: tuple[Any, ...]
    effect: int


class Result(NamedTuple):
    """One of the results of what has the number `made`."""

    made: int
    position: int


class Argument(NamedTuple):
    """An argument of a function, or of a region at a depth."""

    owner: Any
    position: int
    type: Type


class Region(NamedTuple):
    """A region as a function of its arguments."""

    types: tuple[Type, ...]
    results: tuple[int, ...]
    effect: int


class Numbering:
    """Numbers of values; equal keys have equal numbers."""

    def __init__(self, limit: int = 0) -> None:
        """Start without numbers; `limit`: how many operations may be numbered, 0: all."""
        self.table: dict[Any, int] = {}
        self.keys: list[Any] = []
        self.limit = limit
        self.count = 0
        self._firsts: dict[int, int] = {}
        self._calls: dict[Any, tuple[tuple[int, ...], int]] = {}
        self._unchanged: dict[Block, list[int]] = {}

    def number(self, key: Any) -> int:
        """Return the number of a key, a new one if it has none."""
        found = self.table.get(key)
        if found is None:
            found = self.table[key] = len(self.keys)
            self.keys.append(key)
        return found

    def again(self, number: int) -> int:
        """Return another number for a value; no key leads to it."""
        self.keys.append(self.keys[number])
        self._firsts[len(self.keys) - 1] = number
        return len(self.keys) - 1

    def first(self, number: int) -> int:
        """Return the number that the key of a number leads to."""
        return self._firsts.get(number, number)

    def arguments(self, owner: Any, values: Sequence[Value]) -> list[int]:
        """Number the arguments of a function or a region."""
        return [
            self.number(Argument(owner, i, value.type))
            for i, value in enumerate(values)
        ]

    def constant(self, array: np.ndarray[Any, Any]) -> int:
        """Number a constant."""
        content = array.tobytes()
        size = array.dtype.itemsize
        is_equal = array.size > 0 and content == content[:size] * array.size
        kind = TensorType(array.shape, array.dtype)
        return self.number(
            Constant(kind, content[:size] if is_equal else content, is_equal)
        )

    def type(self, number: int) -> Type:
        """Return the type of a value."""
        key = self.keys[number]
        return (
            self.keys[key.made].types[key.position]
            if isinstance(key, Result)
            else key.type
        )

    def unchanged(self, module: Module, body: Block) -> list[int]:
        """Return which carried values the body of a loop hands on as they are."""
        if body not in self._unchanged:
            self._unchanged[body] = unchanged_values(module, body)
        return self._unchanged[body]

    def made(self, number: int) -> Made | None:
        """Return what makes a value by an operation of one result."""
        key = self.keys[number]
        if isinstance(key, Result):
            found = self.keys[key.made]
            return found if len(found.types) == 1 else None
        return None

    def function(
        self,
        module: Module,
        function: Function,
        arguments: Sequence[int],
        numbers: dict[Value, int],
        depth: int = 0,
        effect: int = NO_EFFECT,
    ) -> tuple[tuple[int, ...], int]:
        """Number all values of a function into `numbers`; return results and effect."""
        return self.inlined(module, function.block, arguments, numbers, depth, effect)

    def inlined(
        self,
        module: Module,
        block: Block,
        arguments: Sequence[int],
        numbers: dict[Value, int],
        depth: int,
        effect: int,
    ) -> tuple[tuple[int, ...], int]:
        """Number a block whose arguments are known; return results and effect."""
        numbers.update(zip(block.arguments, arguments, strict=True))
        for operation in block.operations:
            effect = self._operation(module, operation, numbers, depth, effect)
        return tuple(numbers[value] for value in block.returned), effect

    def region(
        self,
        module: Module,
        block: Block,
        numbers: dict[Value, int],
        depth: int,
        bound: dict[int, int] | None = None,
    ) -> Region:
        """Number a region at a depth; arguments in `bound` have the given numbers."""
        bound = bound or {}
        free = [v for i, v in enumerate(block.arguments) if i not in bound]
        numbers.update(zip(free, self.arguments(depth, free)))
        for index, number in bound.items():
            numbers[block.arguments[index]] = number
        effect = NO_EFFECT
        for operation in block.operations:
            effect = self._operation(module, operation, numbers, depth, effect)
        results = tuple(numbers[value] for value in block.returned)
        return Region(tuple(value.type for value in free), results, effect)

    def _operation(
        self,
        module: Module,
        operation: Operation,
        numbers: dict[Value, int],
        depth: int,
        effect: int,
    ) -> int:
        """Number the results of an operation; return the effect after it."""
        self.count += 1
        if self.limit and self.count > self.limit:
            raise TooLargeError
        operands = tuple(numbers[value] for value in operation.operands)
        if operation.name in CALLS and _MARKED not in operation.attributes:
            results, effect = self._call(module, operation, operands, depth, effect)
        elif (branch := self.taken(operation, operands)) is not None:
            for inner in branch.operations:
                effect = self._operation(module, inner, numbers, depth, effect)
            results = [numbers[value] for value in branch.returned]
        elif operation.name == "mhlo.fusion":
            (inner,) = operation.regions
            results, effect = self.inlined(
                module, inner, operands, numbers, depth, effect
            )
        elif operation.name == "stablehlo.while":
            results, effect = self._while(module, operation, numbers, depth, effect)
        else:
            plain = self._plain(operation, operands)
            if plain is not None:
                results = [plain]
            else:
                name, regions = operation.name, operation.regions
                if name == "stablehlo.dot":
                    operation, name = as_general(operation), "stablehlo.dot_general"
                if name == "stablehlo.if":
                    name, regions = "stablehlo.case", regions[::-1]
                    operands = (self._converted(operands[0]),)
                inner = tuple(
                    self.region(module, block, numbers, depth + 1) for block in regions
                )
                results, effect = self._made(
                    module, operation, name, operands, inner, depth, effect
                )
        numbers.update(zip(operation.results, results))
        return effect

    def taken(self, operation: Operation, operands: Sequence[int]) -> Block | None:
        """Return the branch of a `case` that is always taken, if there is one."""
        regions = operation.regions
        if operation.name != "stablehlo.case":
            return None
        if len(regions) == 1:
            return regions[0]
        key = self.keys[operands[0]]
        if not isinstance(key, Constant) or key.type.shape:
            return None
        index = int(np.frombuffer(key.content, key.type.dtype)[0])
        return regions[index if 0 <= index < len(regions) else -1]

    def _call(
        self,
        module: Module,
        operation: Operation,
        operands: tuple[int, ...],
        depth: int,
        effect: int,
    ) -> tuple[Sequence[int], int]:
        callee = module.functions[operation.attributes["callee"]]
        key = (callee, operands, depth, effect)
        if key not in self._calls:
            inner: dict[Value, int] = {}
            self._calls[key] = self.function(
                module, callee, operands, inner, depth, effect
            )
        return self._calls[key]

    def _while(
        self,
        module: Module,
        operation: Operation,
        numbers: dict[Value, int],
        depth: int,
        effect: int,
    ) -> tuple[Sequence[int], int]:
        condition, body = operation.regions
        bound = {
            i: numbers[operation.operands[i]] for i in self.unchanged(module, body)
        }
        regions = [
            self.region(module, block, numbers, depth + 1, bound)
            for block in (condition, body)
        ]
        carried = [i for i in range(len(operation.operands)) if i not in bound]
        kept = tuple(regions[1].results[i] for i in carried)
        regions[1] = regions[1]._replace(results=kept)
        has_effect = any(region.effect != NO_EFFECT for region in regions)
        made = Made(
            operation.name,
            exact(operation.attributes),
            tuple(operation.results[i].type for i in carried),
            tuple(numbers[operation.operands[i]] for i in carried),
            tuple(regions),
            effect if has_effect else NO_EFFECT,
        )
        number = self.number(made)
        results = dict(bound)
        for index, i in enumerate(carried):
            results[i] = self.number(Result(number, index))
        return [
            results[i] for i in range(len(results))
        ], number if has_effect else effect

    def _made(
        self,
        module: Module,
        operation: Operation,
        name: str,
        operands: tuple[int, ...],
        regions: tuple[Region, ...],
        depth: int,
        effect: int,
    ) -> tuple[Sequence[int], int]:
        called = [
            (key, self.region(module, module.functions[one].block, {}, depth + 1))
            for key, value in operation.attributes.items()
            for one in (value if isinstance(value, tuple) else (value,))
            if isinstance(one, Symbol) and one in module.functions
        ]
        taken = {key for key, _ in called}
        taken |= SHARDINGS
        if operation.attributes.get("call_target_name") == "shape_assertion":
            taken.add("error_message")  # names arguments
        rest = {k: v for k, v in operation.attributes.items() if k not in taken}
        inner = (*regions, *(region for _, region in called))
        has_effect = has_effects(operation) or any(r.effect != NO_EFFECT for r in inner)
        types = tuple(value.type for value in operation.results)
        alike: dict[int, int] = {}
        if name == "stablehlo.case" and not has_effect:
            alike = _alike(inner)
            inner = tuple(_without(region, alike) for region in inner)
        chosen = [i for i in range(len(types)) if i not in alike]
        before = effect if has_effect else NO_EFFECT
        kinds = tuple(types[i] for i in chosen)
        made = Made(name, exact(rest), kinds, operands, inner, before)
        number = self.number(made)
        results = dict(alike)
        for index, i in enumerate(chosen):
            results[i] = self.number(Result(number, index))
        return [results[i] for i in range(len(types))], (
            number if has_effect else effect
        )

    def _one(self, name: str, kind: Type, *operands: int) -> int:
        """Number an operation without attributes."""
        made = Made(name, (), (kind,), operands, (), NO_EFFECT)
        return self.number(Result(self.number(made), 0))

    def _conjugate(self, operation: Operation, number: int) -> int | None:
        """Number a conjugate of complex numbers as it is defined."""
        kind = operation.results[0].type
        if not isinstance(kind, TensorType) or kind.dtype.kind != "c":
            return None
        part = TensorType(kind.shape, np.dtype(f"f{kind.dtype.itemsize // 2}"))
        real = self._one("stablehlo.real", part, number)
        imag = self._one("stablehlo.imag", part, number)
        return self._one(
            "stablehlo.complex", kind, real, self._one("stablehlo.negate", part, imag)
        )

    def _converted(self, predicate: int) -> int:
        kind = TensorType((), np.dtype(np.int32))
        return self._one("stablehlo.convert", kind, predicate)

    def _plain(self, operation: Operation, operands: tuple[int, ...]) -> int | None:
        """Return the number of a constant, or of the operand that the result equals."""
        name = operation.name
        if name == "stablehlo.constant":
            value = operation.attributes["value"]
            is_array = isinstance(value, np.ndarray)
            return self.constant(value) if is_array else None
        if name == "sdy.sharding_constraint":
            return operands[0]
        if name == "mhlo.copy" or is_in_place(operation):
            return operands[0]
        if name == "chlo.conj" and not operation.attributes:
            return self._conjugate(operation, operands[0])
        if name == "mhlo.bitcast" and keeps_order(operation):
            return self._one("stablehlo.reshape", operation.results[0].type, *operands)
        if name not in KEEPING or set(operation.attributes) - MOVES:
            return None
        (before,), (after,) = operation.operands, operation.results
        dimensions = operation.attributes.get("broadcast_dimensions")
        if before.type == after.type and (
            dimensions is None or dimensions == tuple(range(len(dimensions)))
        ):
            return operands[0]
        key = self.keys[operands[0]]
        if (
            name != "stablehlo.convert"
            and isinstance(key, Constant)
            and key.element
            and isinstance(after.type, TensorType)
            and 0 not in after.type.shape
        ):
            return self.number(key._replace(type=after.type))
        return None


def _alike(branches: Sequence[Region]) -> dict[int, int]:
    """Return the results that all branches give alike, which do not depend on the choice."""
    columns = zip(*(branch.results for branch in branches), strict=True)
    return {i: column[0] for i, column in enumerate(columns) if len({*column}) == 1}


def _without(branch: Region, dropped: dict[int, int]) -> Region:
    """Return a branch without some of its results."""
    kept = [n for i, n in enumerate(branch.results) if i not in dropped]
    return branch._replace(results=tuple(kept))
