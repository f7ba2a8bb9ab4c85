"""What the page about divergence shows is what comes out.

`python -m tests.interpreters.test_divergence_page` writes the outputs and the drawing.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE, DRAWING = DOCS / "divergence.md", DOCS / "divergence.svg"
BLOCKS = re.compile(r"(```python\n)(.*?)(```\n```text\n)(.*?)(```)", re.DOTALL)
NUMBER = re.compile(r"\d[\d.,]*(e[+-]\d+)?")
BAR = re.compile("[█▏▎▍▌▋▊▉]+")
JITTED = "op by op against jitted"


def outputs(folder: Path) -> tuple[list[str], str]:
    """Run the page; return what its blocks print, and the drawing of the first."""
    namespace: dict[str, object] = {"__name__": "shown"}
    found: list[str] = []
    drawing = ""
    for number, block in enumerate(BLOCKS.findall(PAGE.read_text())):
        path = folder / str(number) / "model.py"  # lines are read from files
        path.parent.mkdir()
        path.write_text(block[1])
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(compile(block[1], str(path), "exec"), namespace)
        found.append(said.getvalue())
        drawing = drawing or namespace["found"].plot()  # pyright: ignore[reportAttributeAccessIssue]
    return found, drawing


def plain(text: str) -> str:
    """Leave out how a machine rounds what it computes in one step."""
    return " ".join(NUMBER.sub("0", BAR.sub("", text)).split())


def outputs_of_users(folder: Path) -> tuple[list[str], str]:
    """Run the page in a process that compiles as those of users do."""
    code = f"""
import json, pathlib
from tests.interpreters.test_divergence_page import outputs
print(json.dumps(outputs(pathlib.Path({str(folder)!r}))))"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=True
    )
    return tuple(json.loads(done.stdout.splitlines()[-1]))


def test_the_page_shows_what_comes_out(tmp_path: Path) -> None:
    found, drawing = outputs_of_users(tmp_path)
    shown = [block[3] for block in BLOCKS.findall(PAGE.read_text())]
    assert len(shown) == 5
    for made, text in zip(found, shown, strict=True):
        if text.startswith(JITTED):
            made, text = plain(made), plain(text)
        assert made == text
    assert DRAWING.read_text() == drawing


def test_the_page_names_all_options() -> None:
    pytest.importorskip("click")
    from untrace.cli.interpreters import divergence

    text = PAGE.read_text()
    named = {"--float64", "--plot", "--against", "--devices", "--tolerance"}
    assert named <= {name for option in divergence.params for name in option.opts}
    assert all(name in text for name in named)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        made, svg = outputs(Path(folder))
    rest = iter(made)
    PAGE.write_text(
        BLOCKS.sub(
            lambda m: "".join([*m.group(1, 2, 3), next(rest), m[5]]), PAGE.read_text()
        )
    )
    DRAWING.write_text(svg)
