"""`untrace reduce`: what it writes where, and what it says of bad input."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from untrace.cli import main
from untrace.reduction import bisecting

MODEL = """\
import jax.numpy as jnp
def loss(x, y):
    h = jnp.tanh(x) * 2.0
    return jnp.sum(jnp.log(h - 5.0) + y)
x, y = jnp.ones(3), jnp.zeros(3)
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    return "model.py"


def run(*args):
    return CliRunner().invoke(main, ["reduce", *args])


def test_a_reproducer_is_written(model, tmp_path):
    done = run(model, "loss(x, y)", "--keep", "nan()", "--plot", "size.svg")
    assert done.exit_code == 0, done.output
    assert "An output has NaN" in done.stderr and "pinned: nan(" in done.stderr
    assert "to 1 equation" in done.stderr.replace("\n", " ")
    assert "jnp.log" in (tmp_path / "repro.py").read_text()
    assert (tmp_path / "size.svg").read_text().startswith("<svg")
    assert (tmp_path / "model-reduction" / "journal.json").exists()
    failed = subprocess.run([sys.executable, "repro.py"], capture_output=True)
    assert failed.returncode != 0


def test_versions_are_known_before_the_reduction(model, tmp_path, monkeypatch):
    listed = subprocess.CompletedProcess(
        [], 0, "Available versions: 0.9.2, 0.9.1\n", ""
    )
    monkeypatch.setattr(bisecting.subprocess, "run", lambda *_, **__: listed)
    done = run(model, "loss(x, y)", "--report", "r.md", "--bisect-jax", "0.9.1..0.9.9")
    assert done.exit_code
    assert "0.9.9 is no version of JAX" in done.stderr
    assert not (tmp_path / "repro.py").exists()


def test_what_runs_a_command_is_checked_with_a_flag(model):
    keep = "command('grep -q log {file}')"
    done = run(model, "loss(x, y)", "--keep", keep, "--max-runs", "3")
    assert "check: python repro.py --check" in done.stderr.replace("\n", " ")


def test_quiet_says_nothing_and_keeps_what_fails(model, tmp_path):
    done = run(model, "loss(x, y)", "-q", "-o", "out.py")
    assert done.exit_code == 0 and done.output == ""
    assert "Pinned failure: nan(blame='log'" in (tmp_path / "out.py").read_text()


def test_events_are_json(model):
    done = run(model, "loss(x, y)", "--keep", "nan()", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = {event["event"] for event in events}
    assert {"pinned", "pass", "judged", "accepted"} <= kinds
    assert events[-1]["equations"] == 1


def test_a_saved_file_needs_no_call_and_a_journal_is_resumed(model, tmp_path):
    done = run(model, "loss(x, y)", "--keep", "nan()", "--max-runs", "2", "-q")
    assert done.exit_code == 0
    done = run("--resume", "model-reduction", "-o", "end.py")
    assert done.exit_code == 0 and "to 1 equation" in done.stderr.replace("\n", " ")
    done = run("end.py", "--keep", "nan()", "-o", "again.py")
    assert done.exit_code == 0, done.output


@pytest.fixture
def foreign(model, tmp_path):
    """A folder from elsewhere, whose journal names a command."""
    done = run(model, "loss(x, y)", "--keep", "nan()", "--max-runs", "2", "-q")
    assert done.exit_code == 0
    return tmp_path / "model-reduction" / "journal.json"


def hijacked(journal, keep):
    facts = json.loads(journal.read_text())
    journal.write_text(json.dumps({**facts, "keep": keep}))


@pytest.mark.parametrize(
    ("keep", "shown"),
    [
        (
            "command('touch ran\\x1b[2K; true {file}')",
            r"'touch ran\x1b[2K; true {file}'",
        ),
        ("nan() & command('touch ran; true {file}')", "'touch ran; true {file}'"),
        ("~nan() | ~command('touch ran; true {file}')", "'touch ran; true {file}'"),
        ("nan(env={'LD_PRELOAD': './ran.so'})", "'LD_PRELOAD=./ran.so' 'python'"),
    ],
)
def test_what_a_journal_names_is_shown_and_not_run(foreign, tmp_path, keep, shown):
    hijacked(foreign, keep)
    done = run("--resume", "model-reduction")
    assert done.exit_code == 2 and shown in done.stderr and "--yes" in done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("answer", ["n", "y"])
def test_a_person_may_confirm_the_command_of_a_journal(
    foreign, tmp_path, monkeypatch, answer
):
    hijacked(foreign, "command('touch ran; true {file}')")
    monkeypatch.setattr("untrace.cli.reducing._is_interactive", lambda: True)
    command = ["reduce", "--resume", "model-reduction", "-q", "--max-runs", "2"]
    done = CliRunner().invoke(main, command, input=f"{answer}\n")
    assert done.exit_code == (0 if answer == "y" else 2), done.output
    assert (tmp_path / "ran").exists() == (answer == "y")


def test_yes_confirms_the_command_of_a_journal(foreign, tmp_path):
    hijacked(foreign, "command('touch ran; true {file}')")
    done = run("--resume", "model-reduction", "-q", "--yes", "--max-runs", "2")
    assert done.exit_code == 0 and (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a FILE"),
        (["model.py", "loss(x, y)", "--keep", "nam()"], "did you mean `nan`"),
        (["model.py", "loss(x, y)", "--keep", "__import__('os')"], "no predicate"),
        (
            ["model.py", "loss(x, y)", "--keep", "crashes()"],
            "does not show the failure",
        ),
        (["model.py", "loss(x, y)", "--keep", "nan(output=7)"], "no output 7"),
        (["model.py", "loss(x, z)", "--keep", "nan()"], "name 'z' is not defined"),
        (["model.py", "--keep", "nan()"], "Give a call as well"),
        (["none.py", "--keep", "nan()"], "there is no file none.py"),
        (["model.py", "--resume", "."], "leave the rest out"),
        (["--resume", "."], "holds no journal.json"),
        (
            ["model.py", "loss(x, y)", "--report", "r.md", "--bisect-jax", "0.9.0"],
            "say FIRST..LAST",
        ),
    ],
)
def test_bad_input_is_explained(model, arguments, message):
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert message in " ".join(done.stderr.split())


def test_an_error_of_the_users_file_is_not_one_of_writing(model, tmp_path):
    text = MODEL.replace("    h =", "    open('weights.npz')\n    h =")
    (tmp_path / model).write_text(text)
    done = run(model, "loss(x, y)", "--keep", "nan()")
    assert done.exit_code == 2
    assert "an error in loss(x, y)" in done.stderr and "weights.npz" in done.stderr


def test_a_drawing_that_cannot_be_written_is_named(model, tmp_path):
    (tmp_path / "file").write_text("")
    done = run(model, "loss(x, y)", "--keep", "nan()", "--plot", "file/size.svg")
    assert done.exit_code == 2
    assert "cannot write file/size.svg" in done.stderr.replace("\n", " ")
