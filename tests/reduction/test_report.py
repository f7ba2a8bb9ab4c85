"""The report for a bug tracker, and what it finds out."""

import os
import platform
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.reduction import bisecting
from untrace.reduction.applying import program_from
from untrace.reduction.bisecting import culprit_passes, first_failing
from untrace.reduction.elsewhere import (
    FAILS,
    FINE,
    UNKNOWN,
    Asking,
    Finding,
    installation,
)
from untrace.reduction.keeping import Keep
from untrace.reduction.report import report
from untrace.reduction.reproducer import Story, unreduced
from untrace.reduction.trials import Judge

X = np.float32([1, -2])


@pytest.fixture(scope="module")
def reduction():
    return untrace.reduce(lambda x: jnp.log(x) * 2, keep="nan()")(X)


@pytest.mark.corpus
def test_a_report_says_what_fails_and_where_else(reduction, tmp_path):
    text = reduction.report(tmp_path / "issue.md", pythons=[sys.executable])
    assert (tmp_path / "issue.md").read_text() == text
    assert text.startswith("An output has NaN while all inputs are finite")
    assert "```python" in text
    assert "AssertionError: the output has NaN" in text
    assert "(exit status 1)" in text
    assert f"| `jax {jax.__version__}, Python 3." in text
    assert sys.executable not in text
    assert "| `--xla_backend_optimization_level=0` | fails |" in text
    assert os.path.expanduser("~") + os.sep not in text.partition("### Elsewhere")[0]


def test_another_interpreter_without_jax_cannot_tell(reduction):
    asking = Asking(reduction.program, Judge(reduction.keep))
    assert asking.ask("none", python="/nowhere/python").verdict == UNKNOWN


def test_another_interpreter_is_named_by_its_versions():
    python = platform.python_version()
    assert installation(sys.executable) == f"jax {jax.__version__}, Python {python}"
    assert installation("/nowhere/python") == "another Python"


def test_a_file_that_does_not_fail_is_said_to(reduction):
    fine = replace(reduction, keep=untrace.keep.inf(), source=fine_source())
    assert "(exit status 0: in this run it did not fail)" in report(fine)


def fine_source():
    values = (np.float32(1),)
    program = program_from(jax.make_jaxpr(jnp.sin)(*values), values, ["x"], "f")
    return unreduced(program, untrace.keep.nan(), Story("f", 1))


class Fake(Asking):
    """Fails unless two passes are disabled."""

    def ask(self, where, env=None, python=None):
        flag = (env or {}).get("XLA_FLAGS", "")
        passes = flag.partition("hlo_passes=")[2].split(",")
        return Finding(where, FINE if {"p3", "p11"} <= set(passes) else FAILS)


def test_the_fewest_passes_are_found(reduction, monkeypatch):
    monkeypatch.setattr(bisecting, "_passes", lambda _: [f"p{i}" for i in range(20)])
    asking = Fake(reduction.program, Judge(Keep()))
    assert sorted(culprit_passes(asking)) == ["p11", "p3"]


def test_the_first_failing_version_is_bisected():
    versions = [f"0.{i}" for i in range(10)]

    def ask(version):
        return Finding(version, FAILS if int(version[2:]) >= 4 else FINE)

    sentence, asked = first_failing(versions, ask)
    assert sentence == "It fails since jax 0.4 (it is fine with 0.3)."
    assert len(asked) <= 6
    first_three, last_three = versions[:3], versions[-3:]
    assert (
        first_failing(first_three, ask)[0] == "It fails with neither jax 0.0 nor 0.2."
    )
    assert first_failing(last_three, ask)[0] == "It fails with both jax 0.7 and 0.9."


def test_versions_that_cannot_be_asked_are_left_out():
    def ask(version):
        number = int(version[2:])
        if number in (4, 5, 6):
            return Finding(version, UNKNOWN, "ERROR: it cannot be installed")
        return Finding(version, FINE if number >= 3 else FAILS)

    versions = [f"0.{i}" for i in range(10)]
    sentence, asked = first_failing(versions, ask)
    assert sentence == "It is fine since jax 0.3 (it fails with 0.2)."
    assert any(finding.verdict == UNKNOWN for finding in asked)
    sentence, _ = first_failing(versions[:5], ask)
    assert sentence == "Nothing can be told with jax 0.4."
