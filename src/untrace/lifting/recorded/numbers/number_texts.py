"""Write floats the way people do: `2 * jnp.pi`, `1 - 0.9`, `1 / 3`, `1e10`, `-jnp.inf`.

Python has computed such numbers before they reach JAX, so nothing but their digits is
left. A text is only replaced by one that Python evaluates to the same float. This works
on the syntax tree of the finished text, where it is known what stands around a number.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from untrace.lifting.printing import Function
from untrace.optional import gives, optional
from untrace.syntax.parsed import Edit, Parsed, replaced
from untrace.syntax.precedence import ADD, ATOM, MUL, level_at

MAX_DENOMINATOR = 30
MAX_DECIMALS = 5
# Digits of a float that nobody writes.
LONG = 12
LARGE = 1e7
# What is left of 1 by a momentum or a decay.
LEAST_DECAY = 0.8


@optional(gives(None))
def write_numbers(
    functions: Iterable[Function], numpy: Callable[[], str], names: Mapping[str, str]
) -> None:
    """Write the floats of functions so that people know them again.

    `numpy` imports `jax.numpy`, and returns what it is called then; `names` are those of
    numbers of the module, by their texts.
    """
    for function in functions:
        body = Parsed("\n".join(function.lines))
        used = {node.id for node in body.names()}
        own = {number: name for number, name in names.items() if name in used}
        function.lines = body.edited(_edits(body, numpy, own)).split("\n")


def readable(text: str, numpy: Callable[[], str], names: Mapping[str, str]) -> str:
    """Write the floats of statements so that people know them again.

    >>> readable("x = 6.283185307179586 * y**0.3333333333333333", lambda: "jnp", {})
    'x = 2 * jnp.pi * y**(1 / 3)'
    >>> readable("x * 0.010000000000000009", lambda: "jnp", {"0.99": "MOMENTUM"})
    'x * (1 - MOMENTUM)'
    """
    body = Parsed(text)
    return body.edited(_edits(body, numpy, names))


def _edits(
    body: Parsed, numpy: Callable[[], str], names: Mapping[str, str]
) -> Iterator[Edit]:
    for node in body.nodes:
        match node:
            case ast.Constant(value=float()):
                text, level = _known(body.source(node))
            case ast.Call(func=ast.Name("float"), args=[ast.Constant(value=str(word))]):
                text, level = _SPECIAL.get(word, ("", ATOM))
            case _:
                continue
        if text:
            text = text.format(numpy=numpy()) if "{" in text else text
            one, sign, rest = text.partition(" - ")
            text = f"{one}{sign}{names.get(rest, rest)}"
            is_free = _stands_free(node, level, body)
            yield replaced(body.span(node), text if is_free else f"({text})")


_SPECIAL = {
    "inf": ("{numpy}.inf", ATOM),
    "-inf": ("-{numpy}.inf", MUL),
    "nan": ("{numpy}.nan", ATOM),
}
"""Texts of what `float("inf")` and the like are, and how tightly these bind."""


def is_rest(number: str, other: str) -> bool:
    """Whether a number is what another leaves of 1, such as a decay, by its digits."""
    if not (len(number) >= LONG > len(other) and other[0].isdigit()):
        return False
    return 1 - float(other) == float(number)


@functools.lru_cache(maxsize=1024)
def _known(number: str) -> tuple[str, int]:
    """Return a better text for a float, and how tightly it binds; "" if there is none."""
    value = float(number)
    if value >= LARGE:
        return _with_exponent(value), ATOM
    if len(number) < LONG:
        return "", ATOM
    text, level = _multiple_of_pi(value), MUL
    if not text:
        text = _fraction(value)
    if not text:
        text, level = _complement(value), ADD
    return text, ATOM if text == "{numpy}.pi" else level


def _with_exponent(value: float) -> str:
    mantissa, _, exponent = repr(value).partition("e")
    if exponent:
        return ""
    mantissa, _, exponent = f"{value:.17e}".partition("e")
    text = f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    return text if len(text) <= 8 and float(text) == value else ""


def _multiple_of_pi(value: float) -> str:
    for factor in (1, 2, 3, 4):
        if value == factor * math.pi:
            return "{numpy}.pi" if factor == 1 else f"{factor} * {{numpy}}.pi"
        if value == math.pi / factor:
            return f"{{numpy}}.pi / {factor}"
    return ""


def _fraction(value: float) -> str:
    for denominator in range(3, MAX_DENOMINATOR + 1):
        numerator = round(value * denominator)
        if numerator and numerator / denominator == value:
            return f"{numerator} / {denominator}"
    return ""


def _complement(value: float) -> str:
    rest = round(1 - value, MAX_DECIMALS)
    return f"1 - {rest}" if LEAST_DECAY <= rest < 1 and 1 - rest == value else ""


def _stands_free(node: ast.expr, level: int, body: Parsed) -> bool:
    """Whether an expression needs no parentheses in the place of a number.

    A sum gets them in any operation, `x + (1 - 0.9)`. The sign of a product is that of its
    first factor.
    """
    parent = body.parent(node)
    if level == MUL and isinstance(parent, ast.UnaryOp):
        node, parent = parent, body.parent(parent)
    if level == ADD and isinstance(parent, ast.BinOp):
        return False
    return parent is None or level >= level_at(node, parent)
