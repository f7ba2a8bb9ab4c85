"""Write numbers so that they read well and keep every bit a number can hold.

A `Number` is a Python number together with its shortest exact text. What no Python
number can express (payloads of NaNs) is left to the caller, who compares bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_DIGITS = 17
"""Enough decimal digits for every binary float of up to 64 bits."""


@dataclass(frozen=True, slots=True)
class Number:
    """A Python number and the text of its real and imaginary parts."""

    value: bool | int | float | complex
    parts: tuple[str, ...]

    def spell(self, numpy: str = "") -> str:
        """Write the number; non-finite parts as attributes of `numpy`, if given."""
        parts = [_name_part(part, numpy) for part in self.parts]
        return parts[0] if len(parts) == 1 else _join_complex(*parts)


_NUMPY_NAMES = {
    'float("nan")': "{}.nan",
    'float("inf")': "{}.inf",
    'float("-inf")': "-{}.inf",
}


def spell_float(value: float) -> str:
    """Write a Python float exactly, without imports."""
    if math.isfinite(value):
        return repr(value)
    return f'float("{value}")'


def spell_complex(value: complex) -> str:
    """Write a Python complex exactly: its `repr` loses the signs of zeros."""
    return _join_complex(spell_float(value.real), spell_float(value.imag))


def read_number(scalar: Any) -> Number:
    """Read a NumPy scalar of any of JAX's dtypes."""
    kind = scalar.dtype.kind
    if kind == "b":
        return Number(bool(scalar), (str(bool(scalar)),))
    if kind in "iu" or "int" in scalar.dtype.name:
        return Number(int(scalar), (str(int(scalar)),))
    if kind == "c":
        texts = _shortest(scalar.real), _shortest(scalar.imag)
        return Number(complex(*map(_parse, texts)), texts)
    text = _shortest(scalar)
    return Number(_parse(text), (text,))


def _shortest(scalar: Any) -> str:
    """Return the shortest decimal text that rounds to `scalar` in its own dtype."""
    value = float(scalar)
    if not math.isfinite(value):
        return spell_float(value)
    kind: Any = scalar.dtype.type
    if kind is np.float64:
        return repr(value)
    text = (
        str(scalar) if kind in (np.float32, np.float16) else _fewest_digits(value, kind)
    )
    return repr(float(text)) if kind(float(text)) == scalar else repr(value)


def _fewest_digits(value: float, kind: Any) -> str:
    texts = (f"{value:.{digits}g}" for digits in range(1, MAX_DIGITS + 1))
    return next(text for text in texts if kind(float(text)) == kind(value))


def _parse(text: str) -> float:
    return float(text.removeprefix('float("').removesuffix('")'))


def _name_part(part: str, numpy: str) -> str:
    return _NUMPY_NAMES[part].format(numpy) if numpy and part in _NUMPY_NAMES else part


def _join_complex(real: str, imag: str) -> str:
    if real == "-0.0" and imag.startswith("-") and imag[-1].isdigit():
        return f"{imag}j"  # a minus of both parts
    is_plain = all(p[-1].isdigit() and p != "-0.0" for p in (real, imag))
    if not is_plain:
        return f"complex({real}, {imag})"
    if real == "0.0" and not imag.startswith("-"):
        return f"{imag}j"
    return f"({real} - {imag[1:]}j)" if imag.startswith("-") else f"({real} + {imag}j)"
