"""Where the time of a job goes."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import pytest
from click.testing import CliRunner

import untrace
from untrace.cli import main
from untrace.stages import measured, stage, staged


def test_stages_are_measured_with_their_parts() -> None:
    with measured() as whole:
        for _ in range(2):
            with stage("write"), stage("numbers"):
                pass
        with stage("verify"):
            pass
    assert [(d, s.name, s.times) for d, s in whole.rows()] == [
        (0, "write", 2),
        (1, "numbers", 2),
        (0, "verify", 1),
    ]
    write = whole.parts["write"]
    assert whole.seconds >= write.seconds >= write.parts["numbers"].seconds >= 0


def test_a_stage_inside_of_itself_is_one() -> None:
    @staged("fold")
    def fold(depth: int) -> int:
        return fold(depth - 1) + 1 if depth else 0

    with measured() as whole:
        assert fold(3) == 3
    assert [(s.name, s.times) for _, s in whole.rows()] == [("fold", 1)]


def test_nothing_is_measured_where_nobody_asks() -> None:
    with stage("write"):
        pass
    with measured() as whole, pytest.raises(KeyError), stage("write"):
        raise KeyError
    assert whole.parts["write"].times == 1
    with stage("write"):
        pass
    assert whole.parts["write"].times == 1


def test_sources_are_made_in_stages() -> None:
    with measured() as whole:
        untrace.source(lambda x: jnp.sin(x) * 2)(1.0)
    assert list(whole.parts) == ["trace and record", "write", "lay out", "verify"]
    with measured() as whole:
        untrace.source(lambda x: jnp.sin(x) * 2, level="lax")(1.0)
    assert list(whole.parts) == ["trace", "write", "lay out", "verify"]


def test_the_command_line_says_where_the_time_went(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text("import jax.numpy as jnp\ndef f(x): return jnp.sin(x)\nx = 1.0\n")
    found = CliRunner().invoke(main, ["show", str(model), "f(x)", "--time-passes"])
    assert found.exit_code == 0 and "jnp.sin" in found.stdout
    assert "of processor time" in found.stderr and "verify" in found.stderr
    assert "of processor time" not in found.stdout
