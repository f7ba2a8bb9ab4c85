"""The pages of the gallery."""

from __future__ import annotations

from tests.gallery.pairs import PAIRS, Pair

INDEX = """\
# Gallery

Twelve programs, and what comes out of each. The pages are written by
`python -m tests.gallery`, from what untrace gave for these files on jax 0.10.2; the tests
compare both. Inputs, fingerprints and the reading of weights, which end or begin every
file, are left out.

| what | goes in | lines | comes out | lines |
|---|---|---|---|---|
{rows}

```{{toctree}}
:hidden:

{names}
```
"""

LANGUAGES = {".py": "python", ".txt": "text", ".mlir": "text"}


def page(pair: Pair) -> str:
    """Return the page of a pair."""
    is_shell = pair.command.startswith("untrace ")
    language = LANGUAGES[pair.path.suffix]
    command = f"$ {pair.command}" if is_shell else pair.command
    return (
        f"# {pair.title}\n\n{pair.text}\n\n## What goes in\n\n"
        f"{fenced(language, pair.before())}\n"
        f"{fenced('text' if is_shell else 'python', command + chr(10))}\n"
        f"## What comes out\n\n{fenced('python', pair.stored.read_text())}"
    )


def fenced(language: str, text: str) -> str:
    """Return a block of code; no line of it may end it."""
    fence = "```"
    while any(line.startswith(fence) for line in text.splitlines()):
        fence += "`"
    return f"{fence}{language}\n{text}{fence}\n"


def index() -> str:
    """Return the page that leads to all of them."""
    rows = [
        f"| [{pair.title}](gallery/{pair.name}.md) | {pair.path.name} "
        f"| {n_lines(pair.before())} | {outcome(pair)} "
        f"| {n_lines(pair.stored.read_text().split(DOCSTRING, 1)[1])} |"
        for pair in PAIRS
        if pair.stored.exists()
    ]
    names = "\n".join(f"gallery/{pair.name}" for pair in PAIRS if pair.stored.exists())
    return INDEX.format(rows="\n".join(rows), names=names)


DOCSTRING = '\n"""\n'
"""Ends the header of every file."""


def outcome(pair: Pair) -> str:
    """Say in a word what the header of a file says of it."""
    header = pair.stored.read_text().split(DOCSTRING)[0]
    known = {
        "traces to the identical equations": "identical",
        "traces to equivalent equations": "equivalent",
        "Reduced by untrace": "a reproducer",
    }
    return next(word for words, word in known.items() if words in header)


def n_lines(text: str) -> int:
    """Count the lines that hold something."""
    return sum(bool(line.strip()) for line in text.splitlines())
