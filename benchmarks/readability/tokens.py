"""Count the tokens and lines of the functions of a file.

All files are counted alike: user's, hand-written and generated ones. What is not part
of the computation is left out (docstrings, imports, example arguments, the main part,
initialisation, comments), and the rest is laid out by `ast.unparse`, so that neither
line breaks nor trailing commas make a difference.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable

OUTSIDE = {"example_args", "program"}
"""Functions that are not part of a computation."""

LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def computation(text: str, only: Iterable[str] | None = None) -> ast.Module:
    """Parse a file and keep what belongs to the computation.

    Args:
      text: The file.
      only: If given, the names of the functions that ran: others are dropped, and so
        are constants that nothing left uses.
    """
    module = ast.parse(text)
    body = [s for s in _without_docstring(module.body) if not _is_outside(s)]
    if only is not None:
        body = _reached(body + _nested_in_program(module), set(only))
    for statement in body:
        for inner in ast.walk(statement):
            if isinstance(inner, Function | ast.ClassDef):
                inner.body = _without_docstring(inner.body) or [ast.Pass()]
    return ast.Module(body, [])


def count_tokens(module: ast.Module) -> int:
    """Count the tokens of a computation."""
    return len(words(ast.unparse(module)))


def words(text: str) -> list[str]:
    """Split a text into its tokens, without layout and comments."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type not in LAYOUT]


def count_lines(module: ast.Module) -> int:
    """Count the lines that the statements of a computation take in their file."""
    return sum(_length(statement) for statement in module.body)


def functions(module: ast.Module) -> list[Function]:
    """List all functions of a computation, nested ones and methods included."""
    return [node for node in ast.walk(module) if isinstance(node, Function)]


def longest(module: ast.Module, only: Iterable[str] | None = None) -> int:
    """Return the length of the longest function, in lines."""
    found = functions(module)
    if only is not None:
        found = [function for function in found if function.name in set(only)]
    return max(map(_length, found), default=0)


def _length(statement: ast.stmt) -> int:
    return (statement.end_lineno or 0) - statement.lineno + 1


def _is_outside(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import | ast.ImportFrom | ast.If):
        return True  # the only `if` of a module asks whether it is the main one
    return isinstance(statement, Function) and statement.name in OUTSIDE


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    is_docstring = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    return body[1:] if is_docstring else body


def _nested_in_program(module: ast.Module) -> list[ast.stmt]:
    for statement in module.body:
        if isinstance(statement, Function) and statement.name == "program":
            return [s for s in statement.body if isinstance(s, Function)]
    return []


def _reached(body: list[ast.stmt], only: set[str]) -> list[ast.stmt]:
    """Keep definitions that ran, and what these mention."""
    kept = [s for s in body if _defined(s) & only]
    while True:
        used = {n.id for s in kept for n in ast.walk(s) if isinstance(n, ast.Name)}
        more = [s for s in body if s not in kept and _is_used(s, used)]
        if not more:
            return [s for s in body if s in kept]
        kept += more


def _defined(statement: ast.stmt) -> set[str]:
    """Names of the functions that a statement defines."""
    if not isinstance(statement, Function | ast.ClassDef):
        return set()
    return {node.name for node in ast.walk(statement) if isinstance(node, Function)}


def _is_used(statement: ast.stmt, used: set[str]) -> bool:
    if isinstance(statement, ast.Assign):
        return any(isinstance(t, ast.Name) and t.id in used for t in statement.targets)
    return isinstance(statement, ast.Expr) and any(
        isinstance(node, ast.Name) and node.id in used for node in ast.walk(statement)
    )
