"""Find sums and differences of inputs that the program needs to be positive.

`log(1 - p - q)` is a number only where `p + q < 1`, which neither array tells. Looked at are
sums of inputs, each times a number, of which a root, a power or a logarithm is taken.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from untrace.ir import Block, Equation, Literal, Value
from untrace.recovery.ties import sub_blocks

_NEEDING = frozenset(["sqrt", "rsqrt", "log", "pow"])
_PASSING = frozenset(["convert_element_type", "copy"])


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum of inputs, each times a number, and a number: `1 - p - q`.

    Attributes:
      factors: The factor of each input, by their positions.
      number: What is added to them.
    """

    factors: Mapping[int, float]
    number: float = 0.0

    def plus(self, other: Sum, factor: float) -> Sum:
        """Add a multiple of another sum."""
        factors = {i: one for i, one in self.factors.items()}
        for i, one in other.factors.items():
            factors[i] = factors.get(i, 0.0) + factor * one
        left = {i: one for i, one in factors.items() if one}
        return Sum(left, self.number + factor * other.number)


def positive_sums(block: Block, inputs: Collection[int]) -> list[Sum]:
    """Find the sums of several inputs that a program takes roots or logarithms of.

    Args:
      block: The program.
      inputs: The positions of those to look at.
    """
    given = {
        value: Sum({i: 1.0}) for i, value in enumerate(block.inputs) if i in inputs
    }
    found: list[Sum] = []
    _walk(block, given, found)
    several = [one for one in found if len(one.factors) + bool(one.number) > 2]
    return [one for n, one in enumerate(several) if one not in several[:n]]


def _walk(
    block: Block, given: Mapping[Value, Sum], found: list[Sum]
) -> list[Sum | None]:
    known = dict(given)
    for eqn in block.equations:
        operands = [_sum_of(operand, known) for operand in eqn.operands]
        if eqn.name in _NEEDING and operands[0] is not None:
            found.append(operands[0])
        if eqn.name == "log1p" and operands[0] is not None:
            found.append(operands[0].plus(Sum({}, 1.0), 1.0))
        made = [_result(eqn.name, operands)] if len(eqn.results) == 1 else []
        made = _inner(eqn, operands, found) or made
        for result, one in zip(eqn.results, made):
            if result is not None and one is not None:
                known[result] = one
    return [_sum_of(output, known) for output in block.outputs]


def _inner(eqn: Equation, operands: list[Sum | None], found: list[Sum]) -> list[Any]:
    """Walk what is called in its place; return what its results are."""
    if eqn.name not in ("jit", "pjit"):
        return []
    outer = dict(zip(eqn.operands, operands))
    for block, passed, _, _ in sub_blocks(eqn):
        sums = {
            value: one
            for value, operand in zip(block.inputs, passed)
            if (one := outer.get(operand)) is not None
        }
        return _walk(block, sums, found)
    return []


def _sum_of(operand: Value | Literal, known: Mapping[Value, Sum]) -> Sum | None:
    if isinstance(operand, Value):
        return known.get(operand)
    number = np.asarray(operand.value)
    is_number = number.shape == () and number.dtype.kind in "iuf"
    return Sum({}, float(number)) if is_number else None


def _result(name: str, operands: list[Sum | None]) -> Sum | None:
    known = [one for one in operands if one is not None]
    if len(known) != len(operands) or not known:
        return None
    first, second = known[0], known[-1]
    match name:
        case "add" | "add_any":
            return first.plus(second, 1.0)
        case "sub":
            return first.plus(second, -1.0)
        case "neg":
            return Sum({}).plus(first, -1.0)
        case "mul" if not second.factors:
            return Sum({}).plus(first, second.number)
        case "mul" if not first.factors:
            return Sum({}).plus(second, first.number)
        case "div" if not second.factors and second.number:
            return Sum({}).plus(first, 1 / second.number)
        case _:
            return first if name in _PASSING else None
