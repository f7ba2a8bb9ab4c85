"""A sample of the programs of packages, where these are installed, and its judge."""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import untrace
from tests.corpus.packages import run, table
from tests.corpus.packages.cases import Call, Case, call
from tests.corpus.packages.finding import Finding, from_json
from tests.corpus.packages.judge import bits, judge, judge_load, judge_text


def sample() -> list[Any]:
    """Return the cases of the sample."""
    return [pytest.param(case, id=case.name) for case in run.chosen(sample=True)]


@pytest.mark.parametrize("case", sample())
def test_program_of_a_package_is_recovered_and_loads(case: Case) -> None:
    found = judge(case, "lax")
    if not found.counts:
        pytest.skip(f"{found.outcome}: {found.detail}")
    assert found.is_verified, found
    checks = found.values, found.load, found.jit
    assert checks == ("equal", "works", "works"), found


def case_of(made: Any) -> Case:
    return Case("jax/local", "jax", "a local case", (), lambda: made)


def program(x: jax.Array, scale: float, mode: str) -> dict[str, jax.Array]:
    return {"y": jnp.sin(x) * scale, "z": x if mode == "same" else -x}


@pytest.mark.parametrize("level", ["lax", "api"])
def test_a_good_program_passes_all_checks(level: str) -> None:
    found = judge(case_of(call(jnp.sin, jnp.arange(3.0))), level)
    checks = found.saved, found.values, found.load, found.jit, found.vmap, found.grad
    assert found.outcome == "identical"
    assert checks == ("works", "equal", "works", "works", "works", "works")
    assert found.equations == 1 and found.imports == []
    assert table.failures(found) == []
    assert from_json(found.to_json()) == found


def test_arguments_that_are_no_arrays_are_handled() -> None:
    found = judge(case_of(call(program, jnp.arange(3.0), 2.0, mode="same")), "lax")
    assert found.is_verified and found.values == "equal"
    assert found.load == "works"  # the text has no parameter `mode`
    assert (found.jit, found.vmap, found.grad) == ("works", "works", "works")


def test_a_program_that_raises_is_not_held_against_untrace() -> None:
    def broken(x: jax.Array) -> jax.Array:
        raise KeyError("its own error")

    found = judge(case_of(call(broken, jnp.ones(3))), "lax")
    assert found.outcome == "case fails" and "its own error" in found.detail
    assert not found.counts and table.failures(found) == []


def test_a_package_that_is_missing_is_said() -> None:
    case = Case("no-such/case", "no-such-package", "", (), lambda: call(jnp.sin, 1.0))
    assert judge(case, "lax").outcome == "not installed"


def test_a_wrong_text_is_rejected() -> None:
    x = jnp.arange(3.0)
    wrong = untrace.source(jnp.cos)(x)
    found = Finding("jax/local", "jax", "lax")
    judge_text(wrong, [jnp.sin(x)], found)
    judge_load(wrong, Call(jnp.sin, (x,)), [jnp.sin(x)], found)
    checks = found.values, found.jit, found.vmap, found.grad
    assert all(check.startswith("differs") for check in checks), found


def test_bits_take_nans_as_equal_and_nothing_else() -> None:
    nans = [jnp.array([jnp.nan, 1.0])]
    assert bits(nans, [-nans[0] * jnp.array([1.0, -1.0])]) == "equal"
    assert bits(nans, [jnp.array([jnp.nan, 1.0000001])]).startswith("differs")
    assert bits([jnp.zeros(1)], [-jnp.zeros(1)]).startswith("differs")
    assert bits([jnp.zeros(1)], [jnp.zeros(1, jnp.int32)]).startswith("differs")
    assert bits([jnp.zeros(1)], []).startswith("differs")
    keys = jax.random.split(jax.random.key(0))
    assert bits([keys[0]], [keys[0]]) == "equal"
    assert bits([keys[0]], [keys[1]]).startswith("differs")


def test_a_process_that_dies_or_hangs_is_a_finding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = case_of(call(jnp.sin, 1.0))
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert run.run_apart(case, "lax", 5.0).outcome == "crashes"


def test_failures_that_are_alike_are_one_class() -> None:
    results = [
        Finding(f"p/{n}", "p", "lax", outcome="raises", detail=f"E: `a{n}` has {n}")
        for n in range(3)
    ]
    assert "- 3 × raises: E: … has # " in table.report(results).replace("\n", " ")
