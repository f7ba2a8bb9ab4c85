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
from untrace.recovery.instructions import NOWHERE, Place, listing_of
from untrace.recovery.sites import once_per_site

MAX_LENGTH = 90
"""Of a quotation, in characters."""
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
    return _quoted(code, lasti, is_close=False)


@optional(gives(""))
@once_per_site
def closely_quoted(code: types.CodeType, lasti: int) -> str:
    """Quote the statement of an instruction, or of a long one a part of it.

    That is the longest expression with the instruction for which there is room.
    """
    return _quoted(code, lasti, is_close=True)


def _quoted(code: types.CodeType, lasti: int, is_close: bool) -> str:
    row, column = position(code, lasti)
    name = code.co_filename.replace("\\", "/").rpartition("/")[2]
    file = confirmed(code)
    node = _statement(file.tree, row, column) if file is not None else None
    if file is None or node is None:
        whole = f"{name}:{row}"
    else:
        place = listing_of(code).place_at(lasti) if is_close else NOWHERE
        text, line = _quotation(node, file, place)
        whole = f"{text}  ({name}:{line})"
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
    row, _, column, _ = listing_of(code).place_at(lasti)
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


def _quotation(node: ast.stmt, file: File, place: Place) -> tuple[str, int]:
    """Quote a statement, or a part of it that holds a place; return the line, too."""
    whole = _one_line(node, file)
    if len(whole) > MAX_LENGTH:
        for part in _expressions_around(node, place):
            text = _one_line(part, file)
            if len(text) <= MAX_LENGTH:
                return text, part.lineno
    return _shortened(whole), node.lineno


def _expressions_around(node: ast.stmt, place: Place) -> Iterator[ast.expr]:
    """Yield the expressions of a statement that hold a place, outermost first."""
    row, end_row, column, end_column = place
    if row is None or end_row is None or column is None or end_column is None:
        return
    for part in ast.walk(node):  # what holds another one comes before it
        if (
            isinstance(part, ast.expr)
            and (part.lineno, part.col_offset) <= (row, column)
            and (end_row, end_column)
            <= (part.end_lineno or 0, part.end_col_offset or 0)
        ):
            yield part


def _one_line(node: ast.stmt | ast.expr, file: File) -> str:
    """Write a statement or expression on one line, as it stands there if that is possible.

    Of one with others inside there is only the head.
    """
    if isinstance(node, ast.stmt) and (hasattr(node, "body") or hasattr(node, "cases")):
        return _head(node)
    text = ast.get_source_segment("".join(file.lines), node) or ""
    for is_shorter in (True, False):
        joined = on_one_line(text, is_shorter)
        if _is_same(joined, node):
            return joined
    return " ".join(ast.unparse(node).split("\n"))


def _head(node: ast.stmt) -> str:
    head = copy.copy(node)
    for field in ("body", "decorator_list", *_MORE):
        if hasattr(head, field):
            setattr(head, field, [])
    return ast.unparse(head).strip()


def _is_same(text: str, node: ast.stmt | ast.expr) -> bool:
    """Whether a text is a statement; `return` needs no function to be parsed."""
    is_expression = isinstance(node, ast.expr)
    try:
        tree = parse(text, "eval" if is_expression else "exec")
    except (SyntaxError, ValueError):
        return False
    found = [tree.body] if isinstance(tree, ast.Expression) else tree.body
    return [*map(ast.dump, found)] == [ast.dump(node)]


def on_one_line(text: str, is_shorter: bool = True) -> str:
    """Join lines, without comments; leave out commas before a closing bracket.

    >>> on_one_line("jnp.log(\\n    x,  # is 0\\n)")
    'jnp.log(x)'
    """
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
