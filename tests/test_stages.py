"""Where the time of a job goes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest
from click.testing import CliRunner
from rich.console import Console

import untrace
from untrace.cli import main
from untrace.cli.status import Share, Status
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


def looping(x: Any) -> Any:
    for i in range(12):
        x = jnp.sin(x) * jnp.cos(x) + i
    return x


@pytest.mark.parametrize("level", ["api", "lax"])
def test_progress_has_numbers(level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("untrace.progress.PAUSE_SECONDS", 0.0)
    told: list[tuple[str, int, int]] = []
    made = untrace.source(
        looping, level=level, progress=lambda *step: told.append(step)
    )(1.0)
    names = list(dict.fromkeys(name for name, _, _ in told))
    assert names == ["tracing", "writing", "verifying"]
    traced = [(done, total) for one, done, total in told if one == "tracing"]
    # Nobody knows how many will follow.
    assert traced == [(n, 0) for n in range(len(traced))]
    assert (len(traced) > 30) == (level == "api")
    for name in names[1:]:
        rows = [(done, total) for one, done, total in told if one == name]
        assert rows[0] == (0, 0) and rows[-1][0] == rows[-1][1] > 1
        assert all(0 <= done <= total for done, total in rows)
    n_equations = made.report.n_equations
    assert ("verifying", n_equations, n_equations) in told
    if level == "lax":
        assert ("writing", n_equations // 2, n_equations) in told


def test_the_share_of_a_job_never_goes_back() -> None:
    share, seen = Share(), [0.0]
    assert share.seconds_left(1.0) is None
    for _ in range(4):  # it is written and verified several times
        for name in ("tracing", "writing", "verifying", "something else"):
            for done in range(5):
                share.update(name, done, 4)
                seen.append(share.done)
    assert seen == sorted(seen) and 0.9 < seen[-1] < 1.0
    assert 0.0 < (share.seconds_left(10.0) or 0.0) < 2.0


def test_long_work_has_a_bar_and_an_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(seconds: float) -> str:
        out = io.StringIO()
        console = Console(file=out, force_terminal=True, width=100)
        monkeypatch.setattr("untrace.cli.status.ERR", console)
        now = [0.0]
        console.get_time = lambda: now[0]
        status = Status()
        status._shown.get_time = lambda: now[0]
        status._shown.tasks[0]._get_time = lambda: now[0]
        with status:
            status.update("writing", 1, 2)
            now[0] = seconds
            status.update("writing", 1, 2)
            status._shown.refresh()
            now[0] += 5.0  # nothing is told meanwhile
            status._shown.refresh()
        return out.getvalue()

    def shown_while_tracing() -> str:
        out = io.StringIO()
        console = Console(file=out, force_terminal=True, width=100)
        monkeypatch.setattr("untrace.cli.status.ERR", console)
        now = [0.0]
        console.get_time = lambda: now[0]
        status = Status()
        status._shown.get_time = lambda: now[0]
        status._shown.tasks[0]._get_time = lambda: now[0]
        with status:
            status.update("tracing", 1, 0)
            now[0] = 9.0
            status.update("tracing", 1234, 0)
            status._shown.refresh()
        return out.getvalue()

    assert "at least 6 s left" in shown_while_tracing()
    assert "tracing (1,234 so far)" in shown_while_tracing()
    long, short = shown(8.0), shown(-4.0)
    assert (
        "about 7 s left" in long
        and "about 2 s left" in long
        and "writing (1 of 2)" in long
        and "━" in long
    )
    assert "left" not in short and "━" not in short and "writing" in short
