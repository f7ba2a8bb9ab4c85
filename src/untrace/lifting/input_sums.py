"""Find sums and differences of inputs that the program needs to be positive.

`log(1 - p - q)` is a number only where `p + q < 1`, which neither array tells. Looked at are
sums of inputs, each times a number, of which a root, a power or a logarithm is taken, and
products and quotients of such sums, `sqrt(s * (s - a) * (s - b) * (s - c))`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from untrace.ir import Block, Equation, Literal, Value, sub_blocks

_NEEDING = frozenset(["sqrt", "rsqrt", "log", "pow"])
_PASSING = frozenset(["convert_element_type", "copy"])

MOST_FACTORS = 8
"""Most factors of a product to look at."""


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

    def times(self, factor: float) -> Sum:
        """Multiply it by a number."""
        return Sum({}).plus(self, factor)

    def least(self, ends: Mapping[int, tuple[float, float]]) -> float:
        """Return the least that it can be while its inputs are between ends.

        It has none where the ends of an input are not known.
        """
        if not self.factors.keys() <= ends.keys():
            return -math.inf
        return self.number + sum(
            factor * ends[i][0 if factor > 0 else 1]
            for i, factor in self.factors.items()
        )


Product = tuple[Sum, ...]
"""Sums that are multiplied with each other, or divided by each other."""


def positive_sums(block: Block, inputs: Collection[int]) -> list[Sum]:
    """Find the sums of several inputs that a program takes roots or logarithms of.

    Of a product of sums these are its factors, and also what they are with the other
    sign, since two of them may be negative.

    Args:
      inputs: The positions of those to look at.
    """
    given = {
        value: (Sum({i: 1.0}),) for i, value in enumerate(block.inputs) if i in inputs
    }
    found: list[Sum] = []
    _walk(block, given, found)
    several = [one for one in found if len(one.factors) + bool(one.number) > 2]
    return [one for n, one in enumerate(several) if one not in several[:n]]


def _walk(
    block: Block, given: Mapping[Value, Product], found: list[Sum]
) -> list[Product | None]:
    known = dict(given)
    for eqn in block.equations:
        operands = [_product_of(operand, known) for operand in eqn.operands]
        needed = operands[0] if operands else None
        if eqn.name in _NEEDING and needed is not None:
            found += needed
            found += [one.times(-1.0) for one in needed if len(needed) > 1]
        if eqn.name == "log1p" and needed is not None and len(needed) == 1:
            found.append(needed[0].plus(Sum({}, 1.0), 1.0))
        made = [_result(eqn.name, operands)] if len(eqn.results) == 1 else []
        made = _inner(eqn, operands, found) or made
        for result, one in zip(eqn.results, made):
            if result is not None and one is not None:
                known[result] = one
    return [_product_of(output, known) for output in block.outputs]


def _inner(
    eqn: Equation, operands: list[Product | None], found: list[Sum]
) -> list[Product | None]:
    """Walk what is called in its place; return what its results are."""
    if eqn.name not in ("jit", "pjit"):
        return []
    (block,) = sub_blocks(eqn)
    known = zip(block.inputs, operands)
    return _walk(block, {value: one for value, one in known if one is not None}, found)


def _product_of(
    operand: Value | Literal, known: Mapping[Value, Product]
) -> Product | None:
    if isinstance(operand, Value):
        return known.get(operand)
    number = np.asarray(operand.value)
    is_number = number.shape == () and number.dtype.kind in "iuf"
    return (Sum({}, float(number)),) if is_number else None


def _result(name: str, operands: list[Product | None]) -> Product | None:
    known = [one for one in operands if one is not None]
    if len(known) != len(operands) or not known:
        return None
    first, second = known[0], known[-1]
    match name:
        case "add" | "add_any" if len(first) == len(second) == 1:
            return (first[0].plus(second[0], 1.0),)
        case "sub" if len(first) == len(second) == 1:
            return (first[0].plus(second[0], -1.0),)
        case "neg":
            return _scaled(first, -1.0)
        case "mul" if not second[0].factors:
            return _scaled(first, second[0].number)
        case "mul" if not first[0].factors:
            return _scaled(second, first[0].number)
        case "div" if not second[0].factors:
            return _scaled(first, 1 / second[0].number) if second[0].number else None
        case "mul" | "div" if len(first) + len(second) <= MOST_FACTORS:
            return (*first, *second)
        case _:
            return first if name in _PASSING else None


def _scaled(product: Product, factor: float) -> Product:
    return product[0].times(factor), *product[1:]
