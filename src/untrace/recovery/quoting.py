"""Quote the statement of the user that made something, if its file still holds it.

A file may have changed since it was imported. What stands there now is compiled, and only
where that makes the very code that ran (instructions, constants, names, places) is its
text the text of what ran. Else there is only the place: `model.py:6`.
"""

from __future__ import annotations

import ast
import bisect
import copy
import io
import linecache
import tokenize
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from untrace import jaxapi
from untrace.optional import gives, optional
from untrace.parsing import parse
from untrace.recovery.instructions import listing_of
from untrace.recovery.sites import once_per_site

MAX_LENGTH = 160
"""Of a statement, in characters; longer ones end in `...`."""
_no_warnings = jaxapi.ThreadFilter("ignore")


@dataclass(frozen=True)
class File:
    """The lines of a file, and what they compile to.

    Attributes:
      lines: As `linecache` holds them.
      codes: All code objects in the file.
      identities: What tells them apart.
      tree: The syntax tree.
    """

    lines: list[str]
    codes: tuple[types.CodeType, ...]
    identities: frozenset[Any]
    tree: ast.Module

    @cached_property
    def comments(self) -> dict[int, str]:
        """What comments say, by their lines."""
        tokens = _comments("".join(self.lines))
        return {token.start[0]: token.string.lstrip("#").strip() for token in tokens}

    @cached_property
    def by_place(self) -> dict[Any, types.CodeType]:
        """The code objects, by the qualified name and the places of instructions."""
        return {
            (code.co_qualname, place): code
            for code in reversed(self.codes)
            for place in code.co_positions()
        }


@optional(gives(""))
@once_per_site
def quoted(code: types.CodeType, lasti: int) -> str:
    """Quote the statement of an instruction on one line, and say where it stands."""
    row, column = position(code, lasti)
    name = code.co_filename.replace("\\", "/").rpartition("/")[2]
    file = confirmed(code)
    node = _statement(file.tree, row, column) if file is not None else None
    if file is None or node is None:
        whole = f"{name}:{row}"
    else:
        whole = f"{_shortened(_one_line(node, file))}  ({name}:{node.lineno})"
    return "".join(char if char.isprintable() else "?" for char in whole)


def quote_as(code: types.CodeType, original: types.CodeType) -> None:
    """Let a code object be quoted as the one that it was made of by renaming things."""
    _ORIGINALS[id(code)] = code, original


_ORIGINALS: dict[int, tuple[types.CodeType, types.CodeType]] = {}


def code_with(filename: str, function: str, place: Sequence[int]) -> Any:
    """Return the code of a function that does something at a place in a file.

    Args:
      filename: The path of the file.
      function: The qualified name of the function.
      place: First line and column, last line and column.

    Returns:
      The code object; None if the file has none, or is none of Python.
    """
    file = _read(filename)
    row, column, end_row, end_column = place
    where = function, (row, end_row, column, end_column)
    return file.by_place.get(where) if file is not None else None


def position(code: types.CodeType, lasti: int) -> tuple[int, int]:
    """Return the line of an instruction, and its column in bytes."""
    positions = listing_of(code).positions
    row, _, column, _ = (*positions[lasti // 2 : lasti // 2 + 1], (None,) * 4)[0]
    return row or code.co_firstlineno, column or 0


# ---- the file ----------------------------------------------------------------------


def confirmed(code: types.CodeType) -> File | None:
    """Return the file that a code object was compiled from, if it is known to be it."""
    known = _identity(_ORIGINALS.get(id(code), (code, code))[1])
    for is_checked in (False, True):  # what was read before may be what was imported
        if is_checked:
            linecache.checkcache(code.co_filename)
        file = _read(code.co_filename)
        if file is not None and known in file.identities:
            return file
    return None


def _read(filename: str) -> File | None:
    """Read and compile a file; None if there is none, or none of Python's."""
    lines = linecache.getlines(filename)
    known = _FILES.get(filename)
    if known is not None and known.lines is lines:
        return known
    text = "".join(lines)
    try:
        with _no_warnings.entered():  # they were shown when it was imported
            module = compile(text, filename, "exec", dont_inherit=True)
            tree = parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    codes = tuple(_codes(module))
    made = File(lines, codes, frozenset(map(_identity, codes)), tree)
    if len(_FILES) >= MAX_FILES:
        _FILES.clear()
    _FILES[filename] = made
    return made


MAX_FILES = 64
_FILES: dict[str, File] = {}


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _identity(code: types.CodeType) -> Any:
    """Return what two code objects have in common if they were made of the same text.

    `==` would also compare what Python notes in instructions while they run.
    """
    return (
        code.co_qualname,
        code.co_firstlineno,
        code.co_code,
        code.co_linetable,
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        tuple(map(_constant, code.co_consts)),
    )


def _constant(value: Any) -> Any:
    if isinstance(value, types.CodeType):
        return _identity(value)
    if isinstance(value, tuple):
        return tuple(map(_constant, value))
    return type(value), value if isinstance(value, frozenset) else repr(value)


# ---- the statement -----------------------------------------------------------------

_MORE = ("handlers", "orelse", "finalbody", "cases")
"""Where statements have others inside, besides `body`."""


def _statement(tree: ast.Module, row: int, column: int) -> ast.stmt | None:
    """Return the innermost statement at a place."""
    found: ast.stmt | None = None
    block: list[Any] = [*tree.body]
    while block:
        begins = [(node.lineno, node.col_offset) for node in block]
        index = bisect.bisect_right(begins, (row, column)) - 1
        if index < 0 or row > (block[index].end_lineno or 0):
            break
        found = block[index] if isinstance(block[index], ast.stmt) else found
        block = inner_statements(block[index])
    return found


def inner_statements(node: Any) -> list[Any]:
    """List the statements in a statement, and what they are in, by their places."""
    parts = [part for field in ("body", *_MORE) for part in getattr(node, field, ())]
    for case in [part for part in parts if isinstance(part, ast.match_case)]:
        parts += case.body
    return sorted(
        (part for part in parts if hasattr(part, "lineno")),
        key=lambda part: (part.lineno, part.col_offset),
    )


def _one_line(node: ast.stmt, file: File) -> str:
    """Write a statement on one line, as it stands there if that is possible.

    Of one with others inside there is only the head.
    """
    if hasattr(node, "body") or hasattr(node, "cases"):
        return _head(node)
    text = ast.get_source_segment("".join(file.lines), node) or ""
    for is_shorter in (True, False):
        joined = _joined(text, is_shorter)
        if _is_same(joined, node):
            return joined
    return " ".join(ast.unparse(node).split("\n"))


def _head(node: ast.stmt) -> str:
    head = copy.copy(node)
    for field in ("body", "decorator_list", *_MORE):
        if hasattr(head, field):
            setattr(head, field, [])
    return ast.unparse(head).strip()


def _is_same(text: str, node: ast.stmt) -> bool:
    """Whether a text is a statement; `return` needs no function to be parsed."""
    try:
        module = parse(text)
    except (SyntaxError, ValueError):
        return False
    return [ast.dump(found) for found in module.body] == [ast.dump(node)]


def _joined(text: str, is_shorter: bool) -> str:
    """Join lines, without comments; leave out commas before a closing bracket."""
    joined = ""
    for row in _rows(text):
        if is_shorter and row.startswith(_CLOSING):
            joined = joined.removesuffix(",")
        is_tight = not joined or joined.endswith(_OPENING)
        joined += row if is_tight or row.startswith((*_CLOSING, ".")) else f" {row}"
    return joined


_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")


def _rows(text: str) -> list[str]:
    rows = text.splitlines()
    for token in _comments(text):
        row, column = token.start
        rows[row - 1] = rows[row - 1][:column]
    rows = [row.strip().removesuffix("\\").rstrip() for row in rows]
    return [row for row in rows if row]


def _comments(text: str) -> Iterator[tokenize.TokenInfo]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token
    except (tokenize.TokenError, IndentationError):  # it is checked what comes of it
        return


def _shortened(text: str) -> str:
    if len(text) <= MAX_LENGTH:
        return text
    return text[: MAX_LENGTH - 4].rpartition(" ")[0] + " ..."
