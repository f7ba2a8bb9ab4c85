"""Write floats the way people do: `2 * jnp.pi`, `1 - 0.9`, `1 / 3`, `1e10`, `-jnp.inf`.

Python has computed such numbers before they reach JAX, so nothing but their digits is
left. A text is only replaced by one that Python evaluates to the same float. This works
on the finished text, where it is known what stands around a number.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping

from untrace.lifting.printing import Function
from untrace.optional import gives, optional
from untrace.syntax.text import STRING, is_comment

MAX_DENOMINATOR = 30
MAX_DECIMALS = 5
# Digits of a float that nobody writes.
LONG = 12
LARGE = 1e7
# What is left of 1 by a momentum or a decay.
LEAST_DECAY = 0.8
_NUMBER = re.compile(
    rf"""float\("(?P<special>-?inf|nan)"\)|{STRING}"""
    r"""|(?<![\w.])(?P<number>\d+\.\d+(?:e[+-]?\d+)?)(?![\w.])"""
)
_WORD = re.compile(r"\w+")
_OPEN, _CLOSE = "([{,:=<>", ")]},:=!<>"
_ATOM, _PRODUCT, _SUM = range(3)


@optional(gives(None))
def write_numbers(
    functions: Iterable[Function], numpy: Callable[[], str], names: Mapping[str, str]
) -> None:
    """Write the floats of functions so that people know them again.

    `numpy` imports `jax.numpy`, and returns what it is called then; `names` are those of
    numbers of the module, by their texts.
    """
    for function in functions:
        words = {word for line in function.lines for word in _WORD.findall(line)}
        own = {number: name for number, name in names.items() if name in words}
        function.lines = [
            line if is_comment(line) else readable(line, numpy, own)
            for line in function.lines
        ]


def readable(line: str, numpy: Callable[[], str], names: Mapping[str, str]) -> str:
    """Write the floats of a line so that people know them again.

    >>> readable("x = 6.283185307179586 * y**0.3333333333333333", lambda: "jnp", {})
    'x = 2 * jnp.pi * y**(1 / 3)'
    >>> readable("x * 0.010000000000000009", lambda: "jnp", {"0.99": "MOMENTUM"})
    'x * (1 - MOMENTUM)'
    """

    def written(match: re.Match[str]) -> str:
        text, level = _known(match["special"] or "", match["number"] or "")
        if not text:
            return match[0]
        text = text.format(numpy=numpy()) if "{" in text else text
        one, sign, rest = text.partition(" - ")
        text = f"{one}{sign}{names.get(rest, rest)}"
        before, after = line[: match.start()], line[match.end() :]
        return text if _stands_free(before, after, level) else f"({text})"

    return _NUMBER.sub(written, line)


def is_rest(number: str, other: str) -> bool:
    """Whether a number is what another leaves of 1, such as a decay, by its digits."""
    if not (len(number) >= LONG > len(other) and other[0].isdigit()):
        return False
    return 1 - float(other) == float(number)


@functools.lru_cache(maxsize=1024)
def _known(special: str, number: str) -> tuple[str, int]:
    """Return a better text for a float, and how tightly it binds; "" if there is none."""
    if special:
        text = "-{numpy}.inf" if special == "-inf" else f"{{numpy}}.{special}"
        return text, _PRODUCT if special == "-inf" else _ATOM
    if not number:
        return "", _ATOM
    value = float(number)
    if value >= LARGE:
        return _with_exponent(value), _ATOM
    if len(number) < LONG:
        return "", _ATOM
    text, level = _multiple_of_pi(value), _PRODUCT
    if not text:
        text = _fraction(value)
    if not text:
        text, level = _complement(value), _SUM
    return text, _ATOM if text == "{numpy}.pi" else level


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


def _stands_free(before: str, after: str, level: int) -> bool:
    """Whether an expression needs no parentheses where it stands."""
    if level == _ATOM:
        return True
    before, after = before.rstrip(), after.lstrip()
    is_first = not before or before[-1] in _OPEN or before.endswith("return")
    is_last = not after or after[0] in _CLOSE
    if level == _SUM or after.startswith("**"):
        return is_first and is_last
    is_added = before.endswith((" +", " -")) and not before[:-2].endswith(tuple("*/@%"))
    return (is_first or is_added) and (is_last or after[0] in "*/+-%@")
