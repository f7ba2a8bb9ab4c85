"""What the page about comparing shows is what comes out."""

import re
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from click.testing import CliRunner

import untrace
from untrace.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "comparing.md").read_text()
FILES = re.findall(r"```python\n(# (\w+\.py)\n.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"```\n\$ untrace (.*?)\n(.*?)```", PAGE, re.DOTALL)
SECONDS = re.compile(r"\b\d+\.\d\d s\b")
OWN = re.compile(r", \d+ of JAX's own operations")
VALUE = re.compile(r"^\d\.\d+$", re.MULTILINE)


def plain(text: str) -> str:
    """Leave out what depends on the machine, and on what ran before."""
    return VALUE.sub("0.0", OWN.sub("", SECONDS.sub("0.00 s", text)))


def test_the_page_has_files_and_commands() -> None:
    assert len(FILES) == 4 and len(COMMANDS) == 3


@pytest.mark.parametrize(("command", "expected"), COMMANDS)
def test_commands_print_what_is_shown(
    command: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    for text, name in FILES:
        Path(name).write_text(text)
    words = re.findall(r"'([^']*)'|(\S+)", command)
    run = CliRunner().invoke(main, [quoted or word for quoted, word in words])
    assert plain(run.stdout + run.stderr) == plain(expected)


def module(name: str) -> dict[str, object]:
    """Run a file of the page."""
    text = next(text for text, file in FILES if file == name)
    path = Path(name).resolve()
    path.write_text(text)
    namespace: dict[str, object] = {"__name__": path.stem}
    exec(compile(text, str(path), "exec"), namespace)
    return namespace


def in_python(start: str) -> str:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    return next(block for block in blocks if block.startswith(start))


def test_diff_in_python_does_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names, new = module("old.py"), module("new.py")
    loss, arguments = names["loss"], (names["params"], names["xs"])
    names["new_loss"] = new["loss"]
    names["jaxpr"] = names["other_jaxpr"] = jax.make_jaxpr(loss)(*arguments)
    untrace.source(loss)(*arguments).save("saved.py")
    exec(in_python("import untrace"), names)
    assert names["found"].verdict == "different"
    assert "↳ 0.9 became 0.95" in capsys.readouterr().out


def test_recompilations_in_python_are_told_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = module("train.py") | {"untrace": untrace}
    names["params"] = {"w": jnp.ones(3)}
    names["train"] = lambda params, data: jax.jit(jnp.dot)(data, params["w"])
    exec(in_python("with untrace.watch_compiles()"), names)
    capsys.readouterr()
    code = in_python("why = ")
    exec(code, names)
    told = [line[2:] for line in code.splitlines() if line.startswith("# ")]
    assert capsys.readouterr().out.splitlines() == told
