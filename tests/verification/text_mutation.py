"""Edit generated files in every way that matters, one small edit at a time.

`text_edits(text)` lists edits of a file: of its tokens and lines, of its header, and of
what its syntax tree consists of. An edit replaces one stretch of the file. What comes
out need not be Python: a check of saved files must refuse it then. Imports stay as they
are, and no name comes in that the file does not have, so that a mutant can do no harm.
"""

from __future__ import annotations

import ast
import io
import itertools
import random
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.verification.node_edits import node_edits
from tests.verification.text_file import TextEdit, TextFile, rule_stretches

PLENTIFUL = {"header: text", "header: digit", "header: line", "layout", "comment"}
"""Kinds that nothing reads, or that are refused in the same way everywhere."""


def sample_edits(text: str, n_edits: int, seed: str) -> list[TextEdit]:
    """Choose edits at random, the same in every run, as evenly among kinds as there are."""
    kinds: dict[str, list[TextEdit]] = {}
    for edit in dict.fromkeys(text_edits(text)):
        kinds.setdefault(edit.kind, []).append(edit)
    order = random.Random(seed)
    for edits in kinds.values():
        order.shuffle(edits)
    for kind in PLENTIFUL & set(kinds):
        del kinds[kind][max(1, n_edits // 30) :]
    columns = order.sample(list(kinds.values()), len(kinds))
    turns = itertools.chain.from_iterable(itertools.zip_longest(*columns))
    return list(itertools.islice(filter(None, turns), n_edits))


def text_edits(text: str) -> Iterator[TextEdit]:
    """List the edits of a file."""
    file = TextFile(text)
    imports = [file.stretch(n) for n in ast.walk(file.tree) if _is_import(n)]
    places = {
        "rule body": list(rule_stretches(file)),
        "examples and main": [file.stretch(n) for n in file.tree.body if _is_run(n)],
        "reader of the sidecar": [
            file.stretch(n) for n in file.tree.body if _is_reader(n)
        ],
    }
    yield from _header_edits(text)
    body_start = file.stretch(file.tree.body[0])[1]
    edits = itertools.chain(
        _token_edits(text, file),
        _line_edits(file),
        _layout_edits(file),
        *(node_edits(node, file) for node in ast.walk(file.tree)),
    )
    for edit in edits:
        old = file.raw[edit.start : edit.stop].decode()
        if edit.start < body_start or _is_inside(edit, imports) or edit.new == old:
            continue
        kinds = [kind for kind, where in places.items() if _is_inside(edit, where)]
        yield replace(edit, kind=kinds[0]) if kinds else edit


def _is_import(node: ast.AST) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def _is_run(node: ast.AST) -> bool:
    is_main = isinstance(node, ast.If)
    return is_main or (
        isinstance(node, ast.FunctionDef) and node.name == "example_args"
    )


def _is_reader(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "load_arrays"


def _is_inside(edit: TextEdit, stretches: Sequence[tuple[int, int]]) -> bool:
    return any(a <= edit.start < b or a < edit.stop <= b for a, b in stretches)


# -- the header, tokens and lines


def _header_edits(text: str) -> Iterator[TextEdit]:
    end = text.index('"""', 3)
    match = re.search(r"Fingerprint\s+of\s+`\w+`\s+on\s+jax\s+\S+:\s+([0-9a-f]+)", text)
    first, last = match.span(1) if match else (end, end)
    to_byte = lambda i: len(text[:i].encode())
    for i in range(3, end):
        a, b = to_byte(i), to_byte(i + 1)
        if first <= i < last:
            yield TextEdit("header: digit", a, b, "1" if text[i] == "0" else "0")
            yield TextEdit("header: digit", a, b, "")
        else:
            yield TextEdit("header: text", a, b, "" if text[i] in "`:" else "z")
    if match:
        line = match.group()
        a, b = to_byte(match.start()), to_byte(match.end())
        yield TextEdit("header: line", a, b, "")
        yield TextEdit("header: line", a, b, f"{line}\n{line[:-1]}")
        yield TextEdit("header: line", a, b, f"{line}\n{line[:-4]}0000")


def _token_edits(text: str, file: TextFile) -> Iterator[TextEdit]:
    shown = {tokenize.NAME, tokenize.NUMBER, tokenize.STRING, tokenize.OP}
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    for token, after in itertools.pairwise(tokens):
        a, b = _token_stretch(token, file)
        if token.type == tokenize.COMMENT:
            yield TextEdit("comment", a, b, "# another comment")
            yield TextEdit("comment", a, b, "")
        if token.type not in shown:
            continue
        yield TextEdit("token: dropped", a, b, "")
        yield TextEdit("token: doubled", a, b, f"{token.string} {token.string}")
        if after.type in shown and after.start[0] == token.end[0]:
            c, d = _token_stretch(after, file)
            between = file.raw[b:c].decode()
            exchanged = f"{after.string}{between}{token.string}"
            yield TextEdit("token: exchanged", a, d, exchanged)


def _token_stretch(token: tokenize.TokenInfo, file: TextFile) -> tuple[int, int]:
    """Return where a token is; columns of tokens count characters, ours bytes."""
    places: list[int] = []
    for line, column in (token.start, token.end):
        start = file.lines[line - 1]
        prefix = file.raw[start:].split(b"\n", 1)[0].decode()[:column]
        places.append(start + len(prefix.encode()))
    return places[0], places[1]


def _layout_edits(file: TextFile) -> Iterator[TextEdit]:
    for start, stop in itertools.pairwise(file.lines):
        yield TextEdit("layout", start, start, "# a comment\n")
        yield TextEdit("layout", stop - 1, stop, "  \n")


def _line_edits(file: TextFile) -> Iterator[TextEdit]:
    for start, stop in itertools.pairwise(file.lines):
        line = file.raw[start:stop].decode()
        yield TextEdit("line: dropped", start, stop, "")
        yield TextEdit("line: doubled", start, stop, line * 2)
        if line.strip():
            yield TextEdit("line: indented", start, start, "    ")
    for start, middle, stop in zip(file.lines, file.lines[1:], file.lines[2:]):
        first, second = file.raw[start:middle].decode(), file.raw[middle:stop].decode()
        yield TextEdit("line: exchanged", start, stop, second + first)
