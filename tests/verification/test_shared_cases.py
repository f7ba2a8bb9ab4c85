"""What one of two programs asks its rules in, both are compared in, at the same place."""

from __future__ import annotations

from untrace import jaxapi
from untrace.verification.shared_cases import shared

ONE, OTHER, THIRD = (
    jaxapi.RuleCase(tuple([i == n for i in range(3)]), ()) for n in range(3)
)


def test_rules_at_one_place_have_the_cases_of_all() -> None:
    found = shared({1: (ONE,), 2: (OTHER,)}, [{1, 2}])
    assert found[1] == found[2]
    assert set(found[1]) == {ONE, OTHER}


def test_a_rule_without_cases_gets_those_of_its_place() -> None:
    assert shared({1: (ONE,)}, [{1, 2}, {3}]) == {1: (ONE,), 2: (ONE,), 3: ()}


def test_places_that_have_a_rule_in_common_are_one() -> None:
    found = shared({1: (ONE,), 3: (OTHER,), 4: (THIRD,)}, [{1, 2}, {3, 4}, {2, 3}, {5}])
    assert set(found[1]) == {ONE, OTHER, THIRD}
    assert found[1] == found[2] == found[3] == found[4]


def test_rules_at_no_known_place_keep_their_cases() -> None:
    assert shared({1: (ONE,)}, []) == {1: (ONE,)}
