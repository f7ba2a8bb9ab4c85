"""`untrace inverse`: the source of an inverse on standard output, reasons on the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from untrace.cli import main

MODEL = """\
import jax, jax.numpy as jnp, untrace
x, w = jnp.arange(1.0, 5.0), jnp.array([[0.1, 0.2], [0.3, 0.4]])
def coupling(x, w, *, shift=0.0):
    a, b = jnp.split(x, 2)
    return jnp.concatenate([a, b * jnp.exp(w @ a) + shift])
def pair(q, p):
    return q + jnp.sin(p), p
def probe(x):
    assert isinstance(x, jax.core.Tracer), "it was run"
    return jnp.sinh(x)
def broken(x):
    raise KeyError("mine")
@jax.jit
def wrong(x):
    return x + 1
untrace.register_inverse(wrong, lambda y: y)
traced = jax.jit(coupling).trace(x, w)
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model_with_flow.py"
    path.write_text(MODEL)
    return path


def run(*args: Any) -> Any:
    return CliRunner().invoke(main, ["inverse", *map(str, args)])


def test_source_of_the_inverse_goes_to_standard_output(model: Path) -> None:
    done = run(model, "coupling(x, w)", "--argnum", 0)
    assert done.exit_code == 0, done.output
    assert "def inverse_of_coupling(y, w):" in done.stdout
    assert "/ jnp.exp(w @" in done.stdout
    assert "Verified" in done.stderr
    compile(done.stdout, "shown", "exec")


def test_log_det_is_returned_beside_it(model: Path) -> None:
    done = run(model, "coupling(x, w)", "--argnum", -2, "--log-det")
    assert done.exit_code == 0, done.output
    assert "def inverse_and_log_det_of_coupling(y, w):" in done.stdout


def test_keywords_of_the_call_are_given_to_the_inverse(model: Path) -> None:
    done = run(model, "coupling(x, w, shift=2.0)", "--argnum", 0, "--check")
    assert done.exit_code == 0, done.output
    assert "shift" in done.stdout.partition("def inverse")[2].partition("\n")[0]


def test_all_arguments_are_wanted_by_default(model: Path) -> None:
    done = run(model, "pair(x, x)", "--level", "lax")
    assert done.exit_code == 0, done.output
    assert "def inverse_of_pair(y_1, y_2):" in done.stdout


def test_saved_files_and_traced_functions_need_no_arguments(
    model: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "saved.py"
    assert run(model, "pair(x, x)", "-o", saved).exit_code == 0
    done = run(saved)
    assert done.exit_code == 0 and "y_1 + jnp.sin(y_2)" in done.stdout, done.output
    done = run(model, "traced()", "--argnum", 0)
    assert done.exit_code == 0 and "def inverse_of_coupling(" in done.stdout


def test_the_call_is_run_only_to_check_it(model: Path) -> None:
    assert run(model, "probe(x)").exit_code == 0
    done = run(model, "probe(x)", "--check")
    assert done.exit_code == 2 and "it was run" in done.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["coupling(x, w)"], "`split`"),
        (["jnp.sin(x)"], "principal=True"),
        (["coupling(x, w)", "--argnum", "7"], "argnums"),
        (["broken(x)"], "KeyError"),
        (["x"], "not a call"),
        ([], "was not written by"),
    ],
)
def test_refusals_are_messages(model: Path, args: Any, message: str) -> None:
    done = run(model, *args)
    assert done.exit_code == 2 and message in done.stderr.replace("\n", " ")
    assert not done.stdout and "Traceback" not in done.stderr


def test_principal_branches_are_asked_for(model: Path) -> None:
    done = run(model, "jnp.sin(x)", "--principal")
    assert done.exit_code == 0 and "jnp.arcsin(y)" in done.stdout


def test_check_compares_before_anything_is_printed(model: Path) -> None:
    done = run(model, "jnp.abs(-x)", "--principal", "--check")
    assert done.exit_code == 0, done.output
    assert run(model, "wrong(x)").exit_code == 0
    done = run(model, "wrong(x)", "--check")
    assert done.exit_code == 2 and "is not what it was given" in done.stderr
    assert not done.stdout
