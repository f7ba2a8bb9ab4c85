"""What the documents show is what comes out."""

from __future__ import annotations

import doctest
import re
import shlex
import sys
from pathlib import Path

import jax.numpy as jnp
import pytest
from click.testing import CliRunner

import untrace
from untrace.cli import main

DOCS = Path(__file__).parent.parent / "docs"
BLOCKS = re.compile(r"```python\n(.*?)```\n(?:```text\n(.*?)```)?", re.DOTALL)


@pytest.mark.parametrize(
    "name", ["interpreters", "printed-jaxprs", "stablehlo", "torch"]
)
def test_blocks_print_what_is_shown(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if name == "torch":
        pytest.importorskip("torch")
    text = (DOCS / f"{name}.md").read_text()
    namespace: dict[str, object] = {"__name__": "shown"}
    for number, (code, wanted) in enumerate(BLOCKS.findall(text)):
        # Names and lines are read from files.
        path = tmp_path / str(number) / "model.py"
        path.parent.mkdir()
        path.write_text(code)
        exec(compile(code, str(path), "exec"), namespace)
        assert capsys.readouterr().out == wanted, code


STEPS = re.compile(
    r"```python\n# (?P<file>\w+\.py)\n(?P<content>.*?)```"
    r"|```python\n(?P<code>.*?)```\n(?:```text\n(?P<printed>.*?)```)?"
    r"|```\n(?P<session>\$ untrace .*?)```",
    re.DOTALL,
)
COMMANDS = re.compile(r"^\$ untrace (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


IN_PROCESSES = "reduce", "verify step.py"
"""Commands that run programs in processes, for which there is no time in every run."""


@pytest.mark.parametrize(
    "is_whole", [False, pytest.param(True, marks=pytest.mark.corpus)], ids=str
)
@pytest.mark.parametrize("name", ["getting-started", "recovering"])
def test_a_reader_who_follows_the_page_sees_what_it_shows(
    name: str,
    is_whole: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """`...` stands for any text; what commands say comes after what they print."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    namespace: dict[str, object] = {}
    text = (DOCS / f"{name}.md").read_text()
    steps = list(STEPS.finditer(text))
    assert len(steps) == text.count("```python\n") + text.count("```\n$ untrace ")
    for step in steps:
        if step["file"]:
            monkeypatch.delitem(sys.modules, step["file"][:-3], raising=False)
            Path(step["file"]).write_text(f"# {step['file']}\n{step['content']}")
        elif step["code"]:
            exec(compile(step["code"], name, "exec"), namespace)
            expect(step["printed"] or "", capsys.readouterr().out)
        for command, wanted in COMMANDS.findall(step["session"] or ""):
            if command.startswith(IN_PROCESSES) and not is_whole:
                continue
            done = CliRunner().invoke(main, shlex.split(command))
            assert done.exit_code == 0, done.output
            expect(wanted, done.stdout + done.stderr)


def expect(wanted: str, got: str) -> None:
    checker, options = doctest.OutputChecker(), doctest.ELLIPSIS
    if not checker.check_output(wanted, got, options):
        pytest.fail(
            checker.output_difference(doctest.Example("", wanted), got, options)
        )


def names_of_the_reader() -> dict[str, object]:
    return {
        "train_step": lambda state, batch: jnp.log(state - state) * (batch * 0.0),
        "state": jnp.ones(3),
        "batch": jnp.ones(3),
        "untrace": untrace,
    }


def test_a_failure_is_reduced_from_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (code, _), _ = BLOCKS.findall((DOCS / "reducing.md").read_text())
    exec(compile(code, "reducing.md", "exec"), names_of_the_reader())
    assert {path.name for path in tmp_path.iterdir()} == {"repro.py", "size.svg"}


@pytest.mark.corpus  # the processes of a cluster take minutes to begin on a busy machine
def test_a_failure_is_reduced_by_a_cluster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    _, (code, _) = BLOCKS.findall((DOCS / "reducing.md").read_text())
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        code = code.replace("scheduler:8786", cluster.scheduler_address)
        exec(compile(code, "reducing.md", "exec"), names_of_the_reader())
    assert [path.name for path in tmp_path.iterdir()] == ["repro.py"]
