"""What the page about comparing shows is what comes out."""

import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

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
