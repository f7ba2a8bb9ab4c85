"""What the documents show is what comes out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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
