"""Numbers as JAX prints them."""

from __future__ import annotations


def is_number(word: str) -> bool:
    """Whether a token is a number."""
    return word[:1].isdigit() or (word[:1] == "-" and len(word) > 1 and word != "->")


def number(word: str) -> int | float | complex:
    """Return the number that a token is.

    >>> number("3"), number("1e-05"), number("-inf"), number("2j")
    (3, 1e-05, -inf, 2j)
    """
    if word[-1] == "j":
        return complex(word)
    if word.lstrip("-").isdigit():
        return int(word[:_MAX_DIGITS])
    if word[:2] == "0x":
        return int(word.replace("X", "0"), 16)
    return float(word)


_MAX_DIGITS = 4000  # what Python converts in any case
