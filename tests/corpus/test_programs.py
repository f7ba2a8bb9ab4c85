"""A sample of the corpus of documented programs; all of it with `-m corpus`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.corpus import programs

SAMPLE = programs.chosen(kinds="base", step=10) + programs.chosen(
    kinds="grad,vmap", step=60
)


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name[:60])
def test_program_comes_back_identical_and_with_the_same_text(case: Any) -> None:
    outcome = programs.run(case)
    if outcome.verdict != "identical" and programs.is_known(case.name):
        pytest.xfail(programs.KNOWN[case.name.partition(":")[0]])
    assert outcome.verdict in ("identical", "untraceable"), outcome.detail


def test_the_corpus_is_large() -> None:
    assert len(programs.PROGRAMS) >= 250


@pytest.mark.corpus
def test_every_program_and_variant_comes_back_identical() -> None:
    bad = [
        outcome
        for outcome in map(programs.run, programs.chosen())
        if outcome.verdict not in ("identical", "untraceable")
        and not programs.is_known(outcome.name)
    ]
    assert not bad, "\n".join(
        f"{o.verdict} {o.name}: {o.detail[:300]}" for o in bad[:20]
    )
