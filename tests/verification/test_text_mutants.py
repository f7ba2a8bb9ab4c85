"""Mutants of saved files: what is accepted is the same function.

A sample; `python -m tests.verification.mutants` makes 20,000.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.verification.mutants import Judged, column, judge_all, judge_sidecar, save
from tests.verification.portrait import portrait
from tests.verification.text_mutation import sample_edits, text_edits
from untrace.verification.retrace import execute

N_MUTANTS = 12
LABELED = ("static_rules", "averages", "step")
LABELS = ("sub", "custom_vjp", "nested", "static_rules", "step", "containers")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Judged]:
    folder = tmp_path_factory.mktemp("mutants")
    judged: list[Judged] = []
    for label, level in itertools.product(LABELS, ("lax", "api")):
        saved = save(label, level, folder)
        edits = sample_edits(saved.text, N_MUTANTS, f"test {saved.label}")
        assert len(edits) == N_MUTANTS
        judged += judge_all(saved, edits)
    return judged


def accepted(results: list[Judged], name: str) -> list[str]:
    return [f"{j.label}: {j.aspect}: {j.shown}" for j in results if column(j) == name]


def test_an_accepted_mutant_is_the_same_function(results: list[Judged]) -> None:
    assert len({judged.outcome for judged in results}) > 4
    assert not accepted(results, "DIFFERENT") + accepted(results, "slow")


def test_a_mutant_of_the_interface_is_rejected(results: list[Judged]) -> None:
    assert not accepted(results, "interface")


def test_a_mutant_of_the_fingerprint_is_rejected(tmp_path: Path) -> None:
    saved = save("sub", "api", tmp_path)
    kinds = ("header: digit", "header: line")
    edits = [e for e in text_edits(saved.text) if e.kind in kinds]
    assert not accepted(list(judge_all(saved, edits)), "header")


@pytest.mark.parametrize("level", ["lax", "api"])
def test_a_changed_sidecar_is_refused(level: str, tmp_path: Path) -> None:
    judged = list(judge_sidecar(save("layer", level, tmp_path), 20))
    assert len(judged) >= 60
    assert {j.outcome for j in judged} == {"raises"}


FILE = """
import jax, jax.numpy as jnp, numpy as np
CONST_0 = np.array([0.5, 1.5], np.float32)

@jax.custom_jvp
def square(x, scale):
    return x * x

@square.defjvp
def square_jvp(primals, tangents):
    return square(*primals), 2.0 * primals[0] * tangents[0]

def f(x, y):
    inner = jax.jit(lambda v: v * CONST_0)
    return {"a": inner(square(x, 2)) + 1.0, "b": y - 1}

def example_args():
    return dict(x=np.ones(2, np.float32), y=2.0)
"""

DIFFERENT = [
    ("1.5]", "1.25]", "equations"),
    ("x * x", "x * x * 1.0", "equations"),
    ("2.0 * primals", "3.0 * primals", "jvp"),
    ('"b": y', '"c": y', "result"),
    ("f(x, y)", "f(x, y=1)", "arguments"),
    ("f(x, y)", "f(x, /, y)", "arguments"),
    ("y=2.0", "y=np.float32(2.0)", "inputs"),
    ("y - 1", "y - np.float32(1)", "result"),
]


@pytest.mark.parametrize(("old", "new", "aspect"), DIFFERENT)
def test_a_portrait_shows_what_differs(old: str, new: str, aspect: str) -> None:
    assert FILE.count(old) == 1
    one, two = (portrait(execute(t), "f") for t in (FILE, FILE.replace(old, new)))
    assert next(key for key in one if one[key] != two[key]) == aspect


def test_a_portrait_is_the_same_twice() -> None:
    assert portrait(execute(FILE), "f") == portrait(execute(FILE), "f")
    renamed = FILE.replace("inner", "other").replace("+ 1.0", "+ 1.0000000001")
    assert portrait(execute(FILE), "f") == portrait(execute(renamed), "f")


def test_every_kind_of_edit_is_made(tmp_path: Path) -> None:
    files = [save(label, "api", tmp_path) for label in LABELED]
    kinds = {edit.kind for saved in files for edit in text_edits(saved.text)}
    wanted = {"name", "key", "constant", "argument order", "default", "rule body"}
    wanted |= {"operands", "decorator", "keyword", "statement order", "result"}
    assert wanted <= kinds, wanted - kinds
