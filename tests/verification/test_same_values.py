"""What trees and static values hold beside arrays: what Python takes for equal may differ."""

from __future__ import annotations

import array
import collections
import decimal
import fractions
import functools
import types
from typing import Any

import pytest

from untrace.verification.compare import are_same_values


class Scaled(functools.partial[Any]):
    """A partial of a class of its own."""


DIFFERENT: list[tuple[Any, Any]] = [
    ({1}, frozenset({1})),
    (types.SimpleNamespace(a=1), types.SimpleNamespace(a=True)),
    (collections.deque([1]), collections.deque([1.0])),
    (decimal.Decimal("1.0"), decimal.Decimal("1.00")),
    (array.array("i", [1]), array.array("f", [1.0])),
    (functools.partial(min, 1), Scaled(min, 1)),
]


@pytest.mark.parametrize("pair", DIFFERENT, ids=lambda pair: type(pair[0]).__name__)
def test_what_is_equal_to_python_may_be_another_value(pair: tuple[Any, Any]) -> None:
    first, second = pair
    assert not are_same_values(first, second)
    assert not are_same_values(second, first)


@pytest.mark.parametrize(
    "make",
    [
        lambda: {1, 2},
        lambda: frozenset({"a"}),
        lambda: types.SimpleNamespace(a=1, b=(2, 3)),
        lambda: collections.deque([1, 2], maxlen=3),
        lambda: decimal.Decimal("1.5"),
        lambda: fractions.Fraction(1, 3),
        lambda: array.array("f", [1.0]),
        lambda: functools.partial(min, 1),
        lambda: Scaled(min, 1),
    ],
)
def test_the_same_made_twice_is_the_same(make: Any) -> None:
    assert are_same_values(make(), make())
