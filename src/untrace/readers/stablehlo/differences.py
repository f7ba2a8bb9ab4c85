"""The first thing that differs between two values of a numbering, in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from untrace.readers.stablehlo.numbering import (
    Argument,
    Constant,
    Made,
    Numbering,
    Result,
)


def first_difference(numbering: Numbering, one: int, other: int) -> str:
    """Say what differs between two values whose numbers are not the same.

    Follows operands that differ, and then regions, to where the operations do.
    """
    seen: set[tuple[int, int]] = set()
    while (one, other) not in seen:
        seen.add((one, other))
        a, b = _behind(numbering, one), _behind(numbering, other)
        if not isinstance(a, Made) or not isinstance(b, Made) or a.name != b.name:
            break
        if a.attributes != b.attributes:
            return f"`{a.name}` {_attributes(a.attributes, b.attributes)}"
        inner = _inner(a, b)
        if inner is None:
            break
        one, other = inner
    return f"{_named(numbering, one)} became {_named(numbering, other)}"


def _behind(numbering: Numbering, number: int) -> Any:
    key = numbering.keys[number]
    return numbering.keys[key.made] if isinstance(key, Result) else key


def _inner(a: Made, b: Made) -> tuple[int, int] | None:
    """Return the first operands or results of regions that differ."""
    pairs = [*zip(a.operands, b.operands)]
    for one, other in zip(a.regions, b.regions):
        pairs += zip(one.results, other.results)
    return next(((x, y) for x, y in pairs if x != y), None)


def _attributes(one: Any, other: Any) -> str:
    first, second = dict(one), dict(other)
    names = sorted(n for n in {*first, *second} if first.get(n) != second.get(n))
    told = [f"{n} {first.get(n)} became {second.get(n)}" for n in names]
    return "; ".join(told)[:300]


def _named(numbering: Numbering, number: int) -> str:
    key = _behind(numbering, number)
    if isinstance(key, Made):
        return f"`{key.name}`"
    if isinstance(key, Argument):
        return f"argument {key.position}"
    if isinstance(key, Constant):
        some = np.frombuffer(key.content, key.type.dtype)[:4].tolist()
        return f"the constant {some} of type {key.type.dtype}{[*key.type.shape]}"
    return "nothing"
