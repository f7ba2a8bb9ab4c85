"""Different programs are told apart: by `compare`, by `equivalent`, by fingerprint."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable

import pytest

from tests.verification import attacks
from tests.verification.attacks.holes import HOLES, UNEQUAL
from tests.verification.attacks.pairs import PAIRS, Pair, evidence, trace
from untrace import jaxapi
from untrace.verification.compare import compare
from untrace.verification.equivalence import equivalent
from untrace.verification.fingerprint import fingerprint

for _module in pkgutil.iter_modules(attacks.__path__):
    importlib.import_module(f"{attacks.__name__}.{_module.name}")


def _cases(judge: str) -> list[object]:
    def marks(name: str) -> list[pytest.MarkDecorator]:
        why = HOLES[judge].get(name)
        return [] if why is None else [pytest.mark.xfail(reason=why, strict=True)]

    return [
        pytest.param(pair, marks=marks(name), id=name) for name, pair in PAIRS.items()
    ]


@functools.cache
def traced(pair: Pair) -> tuple[object, ...]:
    return tuple(trace(side, pair.args) for side in pair.sides)


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_the_programs_of_a_pair_differ(pair: Pair) -> None:
    assert all(map(jaxapi.is_jaxpr, traced(pair)))
    assert evidence(pair), "nothing shows that they differ"


@pytest.mark.parametrize("pair", _cases("compare"))
def test_compare_tells_a_pair_apart(pair: Pair) -> None:
    first, second = traced(pair)
    assert compare(first, second) is not None
    assert compare(second, first) is not None


@pytest.mark.parametrize("pair", _cases("equivalent"))
def test_equivalent_sees_data_flow(pair: Pair) -> None:
    first, second = traced(pair)
    assert (equivalent(first, second) is not None) is pair.by_equivalent
    assert (equivalent(second, first) is not None) is pair.by_equivalent


@pytest.mark.parametrize("pair", _cases("fingerprint"))
def test_fingerprints_of_a_pair_differ(pair: Pair) -> None:
    first, second = traced(pair)
    assert fingerprint(first) != fingerprint(second)


def test_programs_are_the_same_as_themselves_traced_anew() -> None:
    """Nothing is told apart for being another object."""
    for name in PAIRS.keys() - UNEQUAL.keys():
        pair = PAIRS[name]
        first, again = traced(pair)[0], trace(pair.first, pair.args)
        assert compare(first, again) is None, name
        assert equivalent(first, again) is None, name
        assert fingerprint(first) == fingerprint(again), name


def test_there_are_many_pairs_and_every_hole_is_one() -> None:
    assert len(PAIRS) >= 300
    for judge, names in HOLES.items():
        assert not names.keys() - PAIRS.keys(), judge


@pytest.mark.parametrize("judge", [compare, equivalent])
def test_what_a_judge_misses_is_said(judge: Callable[..., object]) -> None:
    for name in HOLES[judge.__name__]:
        notes: list[str] = []
        assert judge(*traced(PAIRS[name]), notes) is None, name
        assert notes, name
