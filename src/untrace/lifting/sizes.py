"""Numbers that are expressions of named dimensions: `BATCH`, `WIDTH // 8`.

A `Size` is an integer and a `Scale` a float wherever they are used, and are written as
their expressions. Which expression a number is follows from samples: what it was when the
function was traced at the sizes at hand, with each dimension changed, and with all of them
changed. An expression must give the very number in every sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from untrace.lifting.spelling.base import Speller, writes
from untrace.syntax.precedence import ADD, ATOM, MUL, POWER
from untrace.syntax.text import comment, occurs

MAX_POWER = 3


@dataclass(frozen=True, slots=True)
class Dimension:
    """A size that the program is written for any value of.

    Attributes:
      name: The constant that holds it.
      samples: Its size in each sample: the sizes at hand first.
      origin: Where it comes from, for a comment.
    """

    name: str
    samples: tuple[int, ...]
    origin: str

    @property
    def size(self) -> int:
        """Return the size at hand."""
        return self.samples[0]


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The dimensions that a program is written with.

    Attributes:
      shapes: The shapes of the inputs, whose sizes may be expressions.
      samples: The captured computation at each of the other sizes that were tried.
      arrays: What the recorded functions were given and returned, with its shapes.
    """

    named: tuple[Dimension, ...]
    shapes: tuple[tuple[Any, ...], ...]
    samples: tuple[Any, ...]
    arrays: tuple[tuple[Any, tuple[Any, ...]], ...] = ()

    def definitions(self, text: str) -> list[str]:
        """Define the dimensions that occur in a text, with where they come from."""
        return [
            f"{d.name} = {d.size}" + (f"  {comment(d.origin)}" if d.origin else "")
            for d in self.named
            if occurs(d.name, text)
        ]

    def with_sample(self, changes: Sequence[int], sample: Any) -> Dimensions:
        """Add a sample in which the dimensions are so much larger."""
        named = tuple(
            replace(d, samples=(*d.samples, d.size + change))
            for d, change in zip(self.named, changes)
        )
        return replace(self, named=named, samples=(*self.samples, sample))

    def resized(self, text: str, sample: int) -> str:
        """Return a module whose dimensions have the sizes of a sample."""
        defined = {f"{d.name} = {d.size}": d for d in self.named}
        lines = text.split("\n")
        for position, line in enumerate(lines):
            statement, gap, origin = line.partition("  #")
            if d := defined.pop(statement, None):
                new = f"{d.name} = {d.samples[sample]}"
                lines[position] = f"{new}{gap}{origin}"
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression: text and the names of dimensions, in turn."""

    parts: tuple[str | Dimension, ...]
    level: int

    def text(self) -> str:
        """Write the expression."""
        return "".join(p if isinstance(p, str) else p.name for p in self.parts)


class Size(int):
    """An integer that is an expression of dimensions."""

    expression: Expression

    @staticmethod
    def make(value: int, expression: Expression) -> Size:
        """Make the integer that an expression stands for."""
        made = Size(value)
        made.expression = expression
        return made


class Scale(float):
    """A float that is an expression of dimensions."""

    expression: Expression

    @staticmethod
    def make(value: float, expression: Expression) -> Scale:
        """Make the float that an expression stands for."""
        made = Scale(value)
        made.expression = expression
        return made


@writes(Size, Scale, exact=True)
def _spell_expression(speller: Speller, value: Any) -> str:
    return value.expression.text()


def solved(values: Sequence[Any], dimensions: Sequence[Dimension]) -> Any:
    """Return a number with its expression; the plain number if it has none.

    Args:
      values: The number in every sample.
      dimensions: The dimensions; sample `i + 1` is that in which dimension `i` changed
        alone, the last that in which all changed.
    """
    first = values[0]
    if all(value == first for value in values):
        return first
    if type(first) is int:
        found = _integer(values, dimensions)
        return first if found is None else Size.make(first, found)
    found = _float(values, dimensions)
    return first if found is None else Scale.make(first, found)


def _integer(
    values: Sequence[int], dimensions: Sequence[Dimension]
) -> Expression | None:
    return _product(values, dimensions) or _sum(values, dimensions)


# ---- products and quotients --------------------------------------------------------


def _product(
    values: Sequence[int], dimensions: Sequence[Dimension]
) -> Expression | None:
    """Find the number as a product of powers of dimensions over others."""
    if not all(value > 0 for value in values):
        return None
    powers: list[int] = []
    for i, dimension in enumerate(dimensions, 1):
        change = Fraction(dimension.samples[i], dimension.size)
        power = _power(change, Fraction(values[i], values[0]))
        if power is None:
            return None
        powers.append(power)
    factor = Fraction(values[0])
    for dimension, power in zip(dimensions, powers):
        factor /= Fraction(dimension.size) ** power
    for i, value in enumerate(values):
        top, below = factor.numerator, factor.denominator
        for dimension, power in zip(dimensions, powers):
            top *= dimension.samples[i] ** max(power, 0)
            below *= dimension.samples[i] ** max(-power, 0)
        if top % below or top // below != value:
            return None
    return _quotient(factor, dimensions, powers)


def _power(change: Fraction, ratio: Fraction) -> int | None:
    """Return the power of a change of a dimension that a ratio is."""
    powers = (0, *(s * p for p in range(1, MAX_POWER + 1) for s in (1, -1)))
    return next((p for p in powers if change**p == ratio), None)


def _quotient(
    factor: Fraction, dimensions: Sequence[Dimension], powers: Sequence[int]
) -> Expression:
    top = [d for d, p in zip(dimensions, powers) for _ in range(p)]
    below = [d for d, p in zip(dimensions, powers) for _ in range(-p)]
    above: list[str | Dimension] = [*top]
    if factor.numerator != 1 or not top:
        above = [str(factor.numerator), *above]
    under: list[str | Dimension] = [*below]
    if factor.denominator != 1:
        under = [str(factor.denominator), *under]
    parts = _joined(above, " * ")
    if not under:
        return Expression(tuple(parts), ATOM if len(above) == 1 else MUL)
    divisor = _joined(under, " * ")
    if len(under) > 1:
        divisor = ["(", *divisor, ")"]
    return Expression((*parts, " // ", *divisor), MUL)


def _joined(items: Sequence[str | Dimension], sign: str) -> list[str | Dimension]:
    parts: list[str | Dimension] = []
    for item in items:
        parts += [sign, item] if parts else [item]
    return parts


# ---- sums --------------------------------------------------------------------------


def _sum(values: Sequence[int], dimensions: Sequence[Dimension]) -> Expression | None:
    """Find the number as a sum of multiples of dimensions and a number."""
    factors: list[int] = []
    for i, dimension in enumerate(dimensions, 1):
        change = dimension.samples[i] - dimension.size
        if (values[i] - values[0]) % change:
            return None
        factors.append((values[i] - values[0]) // change)
    rest = values[0] - sum(f * d.size for f, d in zip(factors, dimensions))
    for i, value in enumerate(values):
        made = rest + sum(f * d.samples[i] for f, d in zip(factors, dimensions))
        if made != value:
            return None
    pairs = sorted(zip(factors, dimensions), key=lambda pair: pair[0] < 0)
    terms = [(f, [d]) for f, d in pairs if f]
    parts: list[str | Dimension] = []
    for factor, dimension in [*terms, *([(rest, [])] if rest else [])]:
        parts += _summand(factor, dimension, not parts)
    return Expression(tuple(parts), ADD)


def _summand(
    factor: int, dimension: Sequence[Dimension], is_first: bool
) -> list[str | Dimension]:
    sign = "-" if factor < 0 else "+"
    head = ("-" if factor < 0 else "") if is_first else f" {sign} "
    if not dimension:
        return [head + str(abs(factor))]
    times = f"{abs(factor)} * " if abs(factor) != 1 else ""
    return [head + times, *dimension] if head + times else [*dimension]


# ---- floats ------------------------------------------------------------------------

# How a float is made of an integer, and the integer of it; the text, and how it binds.
_FORMS: tuple[
    tuple[Callable[[int], float], Callable[[float], float], tuple[str, str], int], ...
] = (
    (lambda n: float(n), lambda v: v, ("float(", ")"), ATOM),
    (lambda n: 1 / n, lambda v: 1 / v, ("1 / ", ""), MUL),
    (lambda n: n**0.5, lambda v: v**2, ("", " ** 0.5"), POWER),
    (lambda n: n**-0.5, lambda v: v**-2, ("", " ** -0.5"), POWER),
    (lambda n: 1 / n**0.5, lambda v: v**-2, ("1 / ", " ** 0.5"), MUL),
)


def _float(
    values: Sequence[float], dimensions: Sequence[Dimension]
) -> Expression | None:
    """Find a float as a root, a reciprocal or the value of an integer."""
    if not all(math.isfinite(v) and v > 0 for v in values):
        return None
    for make, invert, (before, after), level in _FORMS:
        integers = [round(invert(value)) for value in values]
        if not all(integers) or [make(n) for n in integers] != list(values):
            continue
        inner = _integer(integers, dimensions)
        if inner is not None:
            is_bare = inner.level == ATOM or before.endswith("(")
            opened, closed = ("", "") if is_bare else ("(", ")")
            parts = (before + opened, *inner.parts, closed + after)
            return Expression(tuple(p for p in parts if p != ""), level)
    return None
