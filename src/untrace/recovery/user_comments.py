"""The comments that the user wrote before statements, and beside them.

A comment belongs to the statement that it stands beside or inside of, else to the next one;
before a loop it belongs to the loop. Those for tools (`# noqa`, `# type: ignore`) are left.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from untrace.optional import gives, optional
from untrace.recovery.quoting import File, confirmed, inner_statements, position
from untrace.recovery.record import is_library
from untrace.recovery.sites import once_per_site

_FOR_TOOLS = (
    *("noqa", "type:", "pyright:", "pylint:", "mypy:", "fmt:", "isort:", "ruff:"),
    *("pragma", "flake8:", "yapf:", "nosec", "!"),
)


class Remark(NamedTuple):
    """A comment.

    Attributes:
      place: File and line of it.
      text: What it says.
      is_around: Whether it is about a statement around: a loop, a branch.
    """

    place: tuple[str, int]
    text: str
    is_around: bool


@optional(gives(()))
@once_per_site
def remarks_at(code: types.CodeType, lasti: int) -> tuple[Remark, ...]:
    """Return the comments about the statement of an instruction, those around it first.

    There are none in libraries, and none if the file has changed since it was imported.
    """
    file = None if is_library(code) else confirmed(code)
    if file is None:
        return ()
    row, column = position(code, lasti)
    return tuple(_about(file, code, _chain(file.tree, row, column)))


@optional(gives(()))
def remarks_of_return(code: types.CodeType) -> tuple[Remark, ...]:
    """Return the comments about the `return` of a function that has only one, at its end."""
    file = None if is_library(code) else confirmed(code)
    found = _function(file.tree, code) if file is not None else None
    if file is None or found is None:
        return ()
    returns = [node for node in ast.walk(found) if isinstance(node, ast.Return)]
    last = found.body[-1]
    if returns != [last]:
        return ()
    chain = _chain(file.tree, last.lineno, last.col_offset)
    return tuple(_about(file, code, chain))


def _function(tree: ast.Module, code: types.CodeType) -> Any:
    """Return the definition that a code object was made of."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            if first == code.co_firstlineno:
                return node
    return None


def _chain(tree: ast.Module, row: int, column: int) -> list[tuple[Any, int]]:
    """List the statements around a place in its function, the outermost first.

    With each comes the last line of what stands before it.
    """
    chain: list[tuple[Any, int]] = []
    around: Any = tree
    while around is not None:
        inside, before = None, getattr(around, "lineno", 0)
        for node in inner_statements(around):
            if (node.lineno, node.col_offset) > (row, column):
                break
            if inside is not None:
                before = inside.end_lineno or 0
            inside = node
        if inside is None or row > (inside.end_lineno or 0):
            break
        is_function = isinstance(inside, (ast.FunctionDef, ast.AsyncFunctionDef))
        if is_function or isinstance(inside, ast.ClassDef):
            chain = []
        elif isinstance(inside, ast.stmt):
            chain.append((inside, before))
        around = inside
    return chain


def _said(comment: str) -> str:
    """Return what a comment says to people: `why  # noqa` is for a tool in the end."""
    parts: list[str] = []
    for part in comment.split("#"):
        if part.strip().startswith(_FOR_TOOLS):
            break
        parts.append(part)
    return "#".join(parts).strip()


def _about(
    file: File, code: types.CodeType, chain: list[tuple[Any, int]]
) -> Iterator[Remark]:
    for node, before in chain:
        inner = inner_statements(node)
        last = node.lineno if inner else node.end_lineno
        for row in range(before + 1, last + 1):
            text = _said(file.comments.get(row, ""))
            if text:
                yield Remark((code.co_filename, row), text, bool(inner))
