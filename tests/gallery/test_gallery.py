"""What the gallery shows is what comes out."""

from __future__ import annotations

import jax
import pytest

from tests.gallery.pages import DOCSTRING, index, page
from tests.gallery.pairs import PAIRS, ROOT, Pair
from tests.golden.test_golden import FOLDER as GOLDEN
from tests.golden.test_golden import VERSION

DOCS = ROOT / "docs"
AT_ONCE = [pair for pair in PAIRS if not (pair.needs or pair.seconds or pair.golden)]
REST = [pair for pair in PAIRS if pair not in AT_ONCE]


def by_name(pairs: list[Pair]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("pair", pairs, ids=[pair.name for pair in pairs])


@by_name(PAIRS)
def test_page_is_made_of_what_is_kept(pair: Pair) -> None:
    written = (DOCS / "gallery" / f"{pair.name}.md").read_text()
    assert written == page(pair), "run `python -m tests.gallery`"


def test_index_leads_to_all_twelve() -> None:
    assert len(PAIRS) == 12
    assert (DOCS / "gallery.md").read_text() == index(), "run `python -m tests.gallery`"
    pages = {path.stem for path in (DOCS / "gallery").glob("*.md")}
    assert pages == {pair.name for pair in PAIRS}


@by_name([pair for pair in PAIRS if pair.golden])
def test_what_is_kept_is_the_golden_file(pair: Pair) -> None:
    functions = pair.stored.read_text().split(DOCSTRING, 1)[1]
    assert functions == (GOLDEN / f"{pair.golden}.txt").read_text(), again(pair)


@by_name(AT_ONCE)
def test_comes_out_as_kept(pair: Pair) -> None:
    compare(pair)


@pytest.mark.corpus
@by_name(REST)
def test_comes_out_as_kept_with_packages(pair: Pair) -> None:
    for name in pair.needs:
        pytest.importorskip(name)
    compare(pair)


def compare(pair: Pair) -> None:
    made = pair.after()
    if not jax.__version__.startswith(VERSION):
        assert "Verified: traces to " in made or "Pinned failure: " in made
        return
    end = DOCSTRING if pair.name in MEASURED else "\n\n"  # the first line has versions
    made, kept = (text.split(end, 1)[1] for text in (made, pair.stored.read_text()))
    assert made == kept, again(pair)


MEASURED = ("crash", "torch")
"""Pairs whose header holds times, or errors that are not the same everywhere."""


def again(pair: Pair) -> str:
    return f"run `python -m tests.gallery {pair.name}`"
