"""The failures to be reduced exist: their minimal forms fail as the cases say."""

import jax
import pytest

from benchmarks.reduce import cases
from benchmarks.reduce.cases._checking import check


def here(name):
    """Skip a case that does not fail on this version of JAX."""
    case = cases.load(name)
    if jax.__version__.startswith(case.VERSIONS):
        return name
    missing = f"fails on jax {' and '.join(case.VERSIONS)}"
    if not case.VERSIONS:
        missing = f"{cases.OTHER_PYTHON} names no second installation of JAX"
    return pytest.param(name, marks=pytest.mark.skip(missing))


@pytest.mark.parametrize("name", [here(name) for name in cases.names()])
def test_minimal_form_fails_and_program_is_realistic(name):
    case = cases.load(name)
    fails, facts = check(name, "minimal")
    assert fails, facts
    assert facts["equations"] == case.MINIMAL
    assert 500 <= facts["program"] <= 3000


def test_there_is_a_case_of_each_kind_of_predicate():
    kinds = {cases.load(name).KEEP.partition("(")[0] for name in cases.names()}
    assert kinds == {
        "command",
        "contains",
        "crashes",
        "differs",
        "hangs",
        "inf",
        "memory",
        "nan",
        "raises",
        "recompiles",
        "slow_compile",
    }
