"""Numbers and times as a person would write them."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def counted(n: int, noun: str) -> str:
    """Write a number and its noun."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def duration(seconds: float) -> str:
    """Write a time as a person would: "0.8 s", "1 min 52 s"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "min"), (rest, "s")]
    shown = [f"{n} {unit}" for n, unit in parts if n]
    return " ".join(shown[:2])


def listed(words: Sequence[str]) -> str:
    """Write words as a list: "a, b and c"."""
    *rest, last = words
    return f"{', '.join(rest)} and {last}" if rest else last


def is_module_name(stem: str) -> bool:
    """Whether a file of this name would be imported in the place of a module."""
    installed = ("jax", "jaxlib", "numpy", "scipy", "ml_dtypes", "safetensors")
    return stem in sys.stdlib_module_names or stem in installed
