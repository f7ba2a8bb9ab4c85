"""`diff` calls the same programs the same, and finds the place of a single change."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import pytest

import untrace
from tests.corpus.documented import basics, models  # noqa: F401  (register)
from tests.corpus.registry import PROGRAMS as DOCUMENTED
from tests.interpreters.pairs import VARIANTS, Mutant, mutants, mutants_of, variant
from tests.verification.programs import PROGRAMS

N_CHANGES = 3
"""A change may also change what reads it, or leave what nothing needs any more."""

EVERY = list(itertools.product(PROGRAMS, VARIANTS))


def assert_same(name: str, kind: str) -> None:
    before, after = variant(name, kind)
    found = untrace.diff(before, after)
    if kind in ("retraced", "renamed"):
        assert found.verdict == "equal", str(found)
        assert not found.differences
    else:
        assert found.verdict in ("equal", "equivalent"), str(found)
    assert "\n  + " not in str(found)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_written_in_another_way_are_the_same(name: str) -> None:
    number = list(PROGRAMS).index(name)
    for step in (0, 1):
        assert_same(name, VARIANTS[(2 * number + step) % len(VARIANTS)])


@pytest.mark.corpus
@pytest.mark.parametrize(("name", "kind"), EVERY)
def test_all_programs_written_in_another_way_are_the_same(name: str, kind: str) -> None:
    assert_same(name, kind)


def assert_found(mutant: Mutant) -> None:
    found = untrace.diff(mutant.before, mutant.after)
    assert found.verdict == "different", mutant.what
    shown = f"{mutant.what}\n{found}"
    assert any(is_at(mutant, change) for change in found.differences), shown
    if "as list" not in mutant.what:
        assert all(c.kind != "other" for c in found.differences), shown
    if "another variable" not in mutant.what and "dropped" not in mutant.what:
        assert len(found.differences) <= N_CHANGES, shown


def is_at(mutant: Mutant, change: Any) -> bool:
    """Whether a change is at the place of a mutation."""
    if change.path != mutant.path:
        return False
    return mutant.index is None or change.index == mutant.index


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_place_of_a_mutation_is_found(name: str) -> None:
    for mutant in mutants(name, 3):
        assert_found(mutant)


@pytest.mark.corpus
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_places_of_all_mutations_are_found(name: str) -> None:
    for mutant in mutants(name, 12):
        assert_found(mutant)


@pytest.mark.corpus
@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_documented_programs_are_themselves_and_not_their_mutants(name: str) -> None:
    program = DOCUMENTED[name]
    with program.context():
        try:
            traced = jax.make_jaxpr(program.function)(*program.args)
            wrapped = jax.make_jaxpr(lambda *args: program.function(*args))
            again = wrapped(*program.args)
        except (TypeError, ValueError) as error:
            pytest.skip(f"needs Python numbers, or to be outermost: {error}")
        found = untrace.diff(traced, again)
        assert found.verdict == "equal", str(found)
        for mutant in mutants_of(traced, name, 3):
            assert_found(mutant)
