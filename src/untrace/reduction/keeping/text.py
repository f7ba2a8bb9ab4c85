"""Read predicates from text: `nan(under='grad') & contains('log')`.

The grammar is a part of Python's, read with `ast` and never evaluated: calls of known
predicates with literal arguments, `&`, `|`, `~` and parentheses. `str` of a predicate
writes it.
"""

from __future__ import annotations

import ast
import difflib
from typing import Any

from untrace.parsing import parse
from untrace.reduction.keeping.automatic import Auto
from untrace.reduction.keeping.base import Keep, KeepError
from untrace.reduction.keeping.checking import Check
from untrace.reduction.keeping.composition import Both, Either, Not
from untrace.reduction.keeping.contents import Command, Contains
from untrace.reduction.keeping.costs import Memory, Recompiles, SlowCompile
from untrace.reduction.keeping.failures import Crashes, Hangs, Raises
from untrace.reduction.keeping.validity import Lowers
from untrace.reduction.keeping.values import Differs, Inf, Nan

PREDICATES: dict[str, type[Keep]] = {
    kind.WORD: kind
    for kind in (
        Crashes,
        Raises,
        Nan,
        Inf,
        Differs,
        SlowCompile,
        Memory,
        Recompiles,
        Hangs,
        Contains,
        Command,
        Auto,
        Check,
        Lowers,
    )
}
MAX_CHARS = 20_000


def parse_keep(text: str) -> Keep:
    """Read a predicate.

    Raises:
      KeepError: If the text is not of the grammar, or an argument makes no sense.

    >>> parse_keep("raises(ValueError) | ~nan()").pinned is not None
    True
    """
    if len(text) > MAX_CHARS:
        raise KeepError(f"the predicate is longer than {MAX_CHARS} characters")
    try:
        tree = parse(" ".join(text.split("\n")).strip(), "eval")
        return _read(tree.body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = getattr(error, "msg", None) or str(error) or type(error).__name__
        raise KeepError(f"cannot read the predicate {_shown(text)}: {why}") from None


def _read(node: ast.expr) -> Keep:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd):
        return Both(_read(node.left), _read(node.right))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return Either(_read(node.left), _read(node.right))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        return Not(_read(node.operand))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _call(node.func.id, node)
    if isinstance(node, ast.Name) and node.id in PREDICATES:
        return _made(node.id, [], {})
    known = ", ".join(PREDICATES)
    raise KeepError(
        f"a predicate is made of calls, `&`, `|`, `~` and parentheses, not of "
        f"`{_shown(ast.unparse(node))}`; the calls are {known}"
    )


def _call(word: str, node: ast.Call) -> Keep:
    if word not in PREDICATES:
        near = difflib.get_close_matches(word, PREDICATES, 1)
        hint = f"did you mean `{near[0]}`?" if near else ""
        known = f"known are {', '.join(PREDICATES)}"
        raise KeepError(f"there is no predicate `{word}`; {hint or known}")
    given = [_literal(word, item) for item in node.args]
    named: dict[str, Any] = {}
    for item in node.keywords:
        if item.arg is None:
            raise KeepError(f"{word}: `**` is not allowed here")
        named[item.arg] = _literal(word, item.value)
    return _made(word, given, named)


def _made(word: str, given: list[Any], named: dict[str, Any]) -> Keep:
    try:
        return PREDICATES[word](*given, **named)
    except TypeError as error:
        why = str(error).replace("__init__()", f"{word}()").rpartition(f"{word}()")
        raise KeepError(f"{word}(){why[2]}") from None


def _literal(word: str, node: ast.expr) -> Any:
    """Return the value of an argument; names stand for themselves, as in raises(TypeError)."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        dotted = ast.unparse(node)
        if dotted.replace(".", "").isidentifier():
            return dotted
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise KeepError(
            f"{word}: `{_shown(ast.unparse(node))}` is not a literal"
        ) from None


def _shown(text: str) -> str:
    return text if len(text) < 80 else f"{text[:77]}..."
