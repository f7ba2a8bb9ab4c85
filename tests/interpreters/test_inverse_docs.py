"""What the documentation shows is what comes out.

`python -m tests.interpreters.test_inverse_docs` writes the table.
"""

from __future__ import annotations

import doctest
from pathlib import Path

from untrace.interpreters.inverse_rules.listing import listed
from untrace.interpreters.inverting.solver import TABLES

PATH = Path(__file__).parents[2] / "docs" / "inverse.md"
assert TABLES  # they fill the table
MARK = "<!-- table -->\n"


def test_examples_run_as_shown() -> None:
    text, _, _ = PATH.read_text().partition(MARK)
    lines = ["" if line.startswith("```") else line for line in text.splitlines()]
    parsed = doctest.DocTestParser().get_doctest(
        "\n".join(lines) + "\n", {}, PATH.name, str(PATH), 0
    )
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    said: list[str] = []
    doctest.DocTestRunner(optionflags=flags).run(parsed, out=said.append)
    assert not said, "".join(said)


def test_table_is_that_of_the_rules() -> None:
    table = PATH.read_text().partition(MARK)[2]
    assert table.strip() == listed(), f"run `python -m {__name__}`"


if __name__ == "__main__":
    before, mark, _ = PATH.read_text().partition(MARK)
    PATH.write_text(f"{before}{mark}\n{listed()}\n")
