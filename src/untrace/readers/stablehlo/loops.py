"""While loops that `lax.scan` may have been lowered to.

A scan is a loop that counts from 0 to its length. What it scans over is read at the
counter (or from the end), what it stacks is written there, and the rest is carried.
Whether the loop is that scan is proved as all idioms are: by lowering it.
"""

from __future__ import annotations

from collections import ChainMap
from typing import Any, NamedTuple

import numpy as np
from jax import lax

from untrace.jaxapi.module_types import Operation, TensorType
from untrace.readers.stablehlo.frames import Frame
from untrace.readers.stablehlo.numbering import Constant, Made, Numbering

MOVES = ("stablehlo.reshape", "stablehlo.broadcast_in_dim")


class Loop(NamedTuple):
    """A function of some values, and which results of a loop it should give."""

    function: Any
    operands: tuple[int, ...]
    results: tuple[int, ...]


class _Scanned(NamedTuple):
    """Arrays that are read turn by turn: theirs and their items' numbers."""

    array: int
    item: int
    is_reversed: bool


class _Parts(NamedTuple):
    """The parts of a loop that looks like a scan."""

    counter: int
    length: int
    carried: list[int]
    stacked: dict[int, int]  # the value that is written, by the carried array
    scanned: list[_Scanned]
    is_reversed: bool


def scan_candidate(frame: Frame, operation: Operation, depth: int) -> Loop | None:
    """Return the scan that a loop may have been."""
    parts = _parts(frame, operation)
    if parts is None:
        return None
    body = operation.regions[1]
    inits = [frame.variables.of[value] for value in operation.operands]
    arguments = [frame.numbers[value] for value in body.arguments]
    returned = [frame.variables.of[value] for value in body.returned]
    free = set(inits) | frame.variables.captured(body)
    free -= {n for n in free if isinstance(frame.numbering.keys[n], Constant)}
    operands = tuple(sorted(free))
    wanted = [returned[i] for i in parts.carried] + [*parts.stacked.values()]
    n_carried = len(parts.carried)

    def function(*args: Any) -> list[Any]:
        outer: Any = ChainMap(dict(zip(operands, args)))

        def step(carry: Any, items: Any) -> Any:
            given = dict(zip((arguments[i] for i in parts.carried), carry))
            given.update(zip((one.item for one in parts.scanned), items))
            values: Any = ChainMap(given, *outer.maps)
            scopes = operation.place.scopes
            made = frame.evaluate(body, wanted, values, depth + 1, scopes)
            return made[:n_carried], made[n_carried:]

        carry, stacks = lax.scan(
            step,
            [frame.value(inits[i], outer) for i in parts.carried],
            [frame.value(one.array, outer) for one in parts.scanned],
            length=parts.length,
            reverse=parts.is_reversed,
        )
        return [*carry, *stacks]

    return Loop(function, operands, (*parts.carried, *parts.stacked))


def _parts(frame: Frame, operation: Operation) -> _Parts | None:
    numbering = frame.numbering
    counted = _counted(frame, operation)
    if counted is None:
        return None
    counter, length = counted
    body = operation.regions[1]
    fixed = set(numbering.unchanged(frame.module, body))
    at = frame.numbers[body.arguments[counter]]
    scanned = _scanned(frame, operation, at, length)
    carried: list[int] = []
    stacked: dict[int, int] = {}
    for i in range(len(body.returned)):
        if i in fixed or i == counter:
            continue
        written = _written(frame, operation, i, at, length)
        if written is None:
            carried.append(i)
        else:
            stacked[i] = written[0]
            scanned.append(_Scanned(-1, -1, written[1]))
    directions = {one.is_reversed for one in scanned}
    if len(directions) > 1:
        return None
    real = [one for one in scanned if one.array >= 0]
    return _Parts(counter, length, carried, stacked, real, directions == {True})


def _counted(frame: Frame, operation: Operation) -> tuple[int, int] | None:
    """Return which carried value counts from 0, by ones, and up to what."""
    numbering = frame.numbering
    condition, body = operation.regions
    made = numbering.made(frame.numbers[condition.returned[0]])
    if (
        made is None
        or made.name != "stablehlo.compare"
        or "'LT'" not in str(made.attributes)
    ):
        return None
    arguments = [frame.numbers[value] for value in condition.arguments]
    at, limit = made.operands
    length = _number(numbering, limit)
    if at not in arguments or length is None:
        return None
    counter = arguments.index(at)
    after = numbering.made(frame.numbers[body.returned[counter]])
    counts = (
        after is not None and after.name == "stablehlo.add" and after.operands[0] == at
    )
    start = _number(numbering, frame.numbers[operation.operands[counter]])
    if (
        after is None
        or not counts
        or start != 0
        or _number(numbering, after.operands[1]) != 1
    ):
        return None
    return counter, length


def _number(numbering: Numbering, number: int) -> int | None:
    """Return an integer that is known."""
    key = numbering.keys[number]
    if (
        not isinstance(key, Constant)
        or key.type.shape
        or key.type.dtype.kind not in "iu"
    ):
        return None
    return int(np.frombuffer(key.content, key.type.dtype)[0])


def _scanned(
    frame: Frame, operation: Operation, at: int, length: int
) -> list[_Scanned]:
    """Return what the body of a loop reads at the counter."""
    numbering = frame.numbering
    body = operation.regions[1]
    outside = {frame.numbers[value] for value in operation.operands}
    outside |= {*map(numbering.first, frame.variables.captured(body))}
    found: dict[tuple[int, bool], _Scanned] = {}
    for inner in body.operations:
        for value in inner.results:
            number = frame.numbers[value]
            made = numbering.made(number)
            if made is None or made.name != "stablehlo.reshape":
                continue
            read = numbering.made(made.operands[0])
            if read is None or read.name != "stablehlo.dynamic_slice":
                continue
            array, first, *others = read.operands
            kind = numbering.type(array)
            if not isinstance(kind, TensorType) or kind.shape[0] != length:
                continue
            is_reversed = _is_counter(numbering, first, at, length)
            if (
                array in outside
                and is_reversed is not None
                and all(_number(numbering, one) == 0 for one in others)
                and numbering.type(number) == TensorType(kind.shape[1:], kind.dtype)
            ):
                found[array, is_reversed] = _Scanned(array, number, is_reversed)
    return [*found.values()]


def _is_counter(numbering: Numbering, number: int, at: int, length: int) -> bool | None:
    """Whether an index is the counter from the end (or the counter: False)."""
    if number == at:
        return False
    made = numbering.made(number)
    if made is None or made.name != "stablehlo.subtract":
        return None
    first, second = made.operands
    inner = numbering.made(first)
    if inner is None:
        return (
            True if _number(numbering, first) == length - 1 and second == at else None
        )
    is_end = inner.name == "stablehlo.subtract" and _number(numbering, second) == 1
    if is_end and _number(numbering, inner.operands[0]) == length:
        return True if inner.operands[1] == at else None
    return None


def _written(
    frame: Frame, operation: Operation, index: int, at: int, length: int
) -> tuple[int, bool] | None:
    """Return what is written into a carried array at the counter, and from which end."""
    numbering = frame.numbering
    body = operation.regions[1]
    start = numbering.keys[frame.numbers[operation.operands[index]]]
    if not isinstance(start, Constant) or not start.element or any(start.content):
        return None
    made = numbering.made(frame.numbers[body.returned[index]])
    if made is None or made.name != "stablehlo.dynamic_update_slice":
        return None
    array, update, first, *others = made.operands
    is_reversed = _is_counter(numbering, first, at, length)
    row = numbering.made(update)
    if (
        array != frame.numbers[body.arguments[index]]
        or is_reversed is None
        or any(_number(numbering, one) != 0 for one in others)
    ):
        return None
    return _row(numbering, update, row, start.type), is_reversed


def _row(numbering: Numbering, update: int, row: Made | None, kind: TensorType) -> int:
    """Return what an update of one row is made of: the row, or a constant."""
    key = numbering.keys[update]
    if isinstance(key, Constant):
        return numbering.number(
            key._replace(type=key.type._replace(shape=kind.shape[1:]))
        )
    return row.operands[0] if row is not None and row.name in MOVES else update
