"""The documentation hangs together: pages, links, pictures, and who runs the examples."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
OTHERS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]


def tokens(text: str):
    for token in MarkdownIt().enable("table").parse(text):
        yield token
        yield from token.children or ()


def blocks(text: str, kind: str) -> list[str]:
    """Return the contents of the fenced blocks of a kind."""
    found = [token for token in tokens(text) if token.type == "fence"]
    return [token.content for token in found if token.info == kind]


def navigated(page: str = "index.md") -> list[str]:
    """List a page and those that its tables of contents lead to."""
    path = DOCS / page
    found = [page]
    for tree in blocks(path.read_text(), "{toctree}"):
        names = [line for line in tree.splitlines() if line and line[0] != ":"]
        for name in names:
            below = (path.parent / f"{name}.md").relative_to(DOCS).as_posix()
            assert below in PAGES, f"{page}: there is no page {name}"
            found += navigated(below)
    return found


def test_every_page_is_in_the_navigation_once() -> None:
    assert sorted(navigated()) == PAGES


def anchors(path: Path) -> set[str]:
    """List the anchors of the headings of a page, as GitHub and the site name them."""
    found, inside = set(), False
    for token in tokens(path.read_text()):
        if inside and token.type == "inline":
            words = re.sub(r"[^\w\- ]", "", token.content.lower())
            found.add(words.replace(" ", "-"))
        inside = token.type == "heading_open"
    return found


@pytest.mark.parametrize("name", [*OTHERS, *(f"docs/{page}" for page in PAGES)])
def test_relative_links_lead_somewhere(name: str) -> None:
    path = ROOT / name
    for token in tokens(path.read_text()):
        target = token.attrs.get("href") or token.attrs.get("src")
        if not target or "://" in str(target):
            continue
        file, _, anchor = str(target).partition("#")
        there = path.parent / file if file else path
        assert there.exists(), f"{name}: {target}"
        assert not anchor or anchor in anchors(there), f"{name}: {target}"


RUN = {
    "adding-a-primitive": "test_extension.py",
    "comparing": "interpreters/test_comparing_page.py",
    "divergence": "interpreters/test_divergence_page.py",
    "getting-started": "test_documents.py",
    "index": "test_site.py",
    "interpreters": "test_documents.py",
    "inverse": "interpreters/test_inverse_docs.py",
    "printed-jaxprs": "test_documents.py",
    "recovering": "test_documents.py",
    "reducing": "test_documents.py",
    "stablehlo": "test_documents.py",
    "torch": "test_documents.py",
}
"""Which test runs the examples of a page, or compares them with what was run."""


@pytest.mark.parametrize("page", PAGES)
def test_examples_are_run(page: str) -> None:
    text = (DOCS / page).read_text()
    code = blocks(text, "python") + blocks(text, "pycon")
    name = page.removesuffix(".md")
    if not code or page.startswith("gallery/"):  # see gallery/test_gallery.py
        return
    test = (ROOT / "tests" / RUN[name]).read_text()
    assert name in test, f"{RUN[name]} does not name {page}"


def test_the_front_page_shows_a_pair_of_the_gallery() -> None:
    goes_in, comes_out = blocks((DOCS / "index.md").read_text(), "python")
    first, _, result = blocks((DOCS / "gallery" / "flax.md").read_text(), "python")
    for shown, whole in ((goes_in, first), (comes_out, result)):
        for definition in shown.strip().split("\n\n\n"):
            assert definition in whole, definition


def test_pictures_are_readable_in_the_dark() -> None:
    for path in (DOCS / "pictures").glob("*.svg"):
        text = path.read_text()
        assert "prefers-color-scheme:dark" in text and "<title" in text
        assert len(text) < 4000, path
