"""What level "api" makes of the readability programs, as files to read."""

import warnings
from pathlib import Path

import jax
import pytest

import untrace
from benchmarks.readability import corpus

FOLDER = Path(__file__).parent
VERSION = "0.10."
"""The JAX whose text is kept; frameworks differ a little between versions."""

# The order of the fields of its distributions is that of a Python set.
UNSTABLE = {"numpyro_regression"}


def recover(program: corpus.Program) -> untrace.Source:
    with warnings.catch_warnings():
        warnings.simplefilter("error", untrace.UnverifiedWarning)
        return untrace.source(program.function)(*program.args)


def body(program: corpus.Program) -> str:
    """Return the recovered functions, without header and example inputs."""
    text = str(recover(program)).split('"""\n', 1)[-1]
    return text.split("\n\n\ndef example_args")[0] + "\n"


@pytest.mark.parametrize("name", corpus.names())
def test_program_comes_back_as_calls(name: str) -> None:
    program = corpus.load(name)  # none is skipped: it would not be looked at any more
    src = recover(program)
    assert src.report.is_verified, str(src.report)
    assert "Written from its equations" not in str(src)
    if jax.__version__.startswith(VERSION) and name not in UNSTABLE:
        golden = (FOLDER / f"{name}.txt").read_text()
        assert body(program) == golden, f"run `python -m tests.golden {name}`"
