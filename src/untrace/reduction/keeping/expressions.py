"""Expressions on outputs, such as `outputs[0].max() > 1e3`, without `eval`.

The grammar is a part of Python's: numbers, `outputs`, `inputs`, `np`, subscripts,
arithmetic, comparisons, `and`, `or`, `not`, and calls of functions that compute. Nothing
else can be reached, since a journal may be another's.
"""

from __future__ import annotations

import ast
import inspect
import operator
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from untrace.errors import KeepError
from untrace.parsing import parse

MAX_CHARS = 2_000
MAX_EXPONENT = 1_000

_WORDS = """
T abs all allclose any argmax argmin array_equal astype clip count_nonzero cumsum diff dot
dtype e exp float32 float64 imag inf isclose isfinite isinf isnan linalg log log10 max
maximum mean median min minimum nan nanmax nanmean nanmin ndim norm pi prod ptp ravel real
reshape round shape sign signbit size sort sqrt std sum trace unique var
"""
ATTRIBUTES = frozenset(_WORDS.split())
"""What may stand behind a dot: functions and properties that compute."""

BUILTINS: Mapping[str, Any] = {
    function.__name__: function
    for function in (abs, all, any, bool, float, int, len, max, min, sum)
}
_BINARY: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: lambda a, b: _power(a, b),
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.MatMult: operator.matmul,
}
_UNARY: Mapping[type[ast.AST], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}
_COMPARED: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
NAMES = ("outputs", "inputs", "np")


def read_expression(text: str) -> ast.expr:
    """Read an expression.

    Raises:
      KeepError: If it is not of the grammar.
    """
    if len(text) > MAX_CHARS:
        raise KeepError(f"check: an expression has at most {MAX_CHARS:,} characters")
    try:
        tree = parse(text.strip())
    except SyntaxError as error:
        raise KeepError(f"check: cannot read {text!r}: {error.msg}") from None
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.Expr):
        raise KeepError(f"check: {text!r} is not one expression")
    found = tree.body[0].value
    _check(found)
    return found


def expression_of(function: Any) -> str | None:
    """Return the expression that a function of the outputs computes.

    None if it is no lambda or single `return` of the grammar whose source is known.
    """
    try:
        tree = parse(textwrap.dedent(inspect.getsource(function)).strip())
        names = inspect.getclosurevars(function)
        (name,) = inspect.signature(function).parameters
    except (OSError, SyntaxError, TypeError, ValueError):
        return None
    bodies = [body for node in ast.walk(tree) if (body := _returned(node)) is not None]
    if len(bodies) != 1:
        return None
    known = {**names.globals, **names.nonlocals}
    text = ast.unparse(_InGrammar(name, known).visit(bodies[0]))
    try:
        read_expression(text)
    except KeepError:
        return None
    return text


def _returned(node: ast.AST) -> ast.expr | None:
    """Return the body of a lambda, or what a function returns that does nothing else."""
    if isinstance(node, ast.Lambda):
        return node.body
    if isinstance(node, ast.FunctionDef) and len(node.body) == 1:
        only = node.body[0]
        return only.value if isinstance(only, ast.Return) else None
    return None


class _InGrammar(ast.NodeTransformer):
    """Names of a function: its argument, NumPy (or that of JAX), numbers it closes over."""

    def __init__(self, argument: str, known: Mapping[str, Any]) -> None:
        self._argument = argument
        self._known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        found = self._known.get(node.id)
        if node.id == self._argument:
            return ast.Name("outputs", ast.Load())
        if isinstance(found, (bool, int, float)):
            return ast.Constant(found)
        if found is np or found is jnp:
            return ast.Name("np", ast.Load())
        is_own = node.id in self._known or node.id in NAMES
        return ast.Name("_", ast.Load()) if is_own else node  # something else


def _check(node: ast.AST) -> None:
    """Refuse what is not of the grammar, before anything is evaluated."""
    kinds = (ast.Constant, ast.Tuple, ast.List, ast.Subscript, ast.Slice, ast.Starred)
    known = (*kinds, ast.BoolOp, ast.And, ast.Or, ast.Compare, ast.IfExp, ast.keyword)
    tables = (*_BINARY, *_UNARY, *_COMPARED, ast.BinOp, ast.UnaryOp, ast.Load)
    if isinstance(node, ast.Name):
        is_known = node.id in NAMES or node.id in BUILTINS
    elif isinstance(node, ast.Attribute):
        is_known = node.attr in ATTRIBUTES
    else:
        is_known = isinstance(node, (*known, *tables, ast.Call))
    if not is_known or isinstance(node, ast.Starred):
        shown = ast.unparse(node) if isinstance(node, ast.expr) else type(node).__name__
        raise KeepError(
            f"check: `{shown[:80]}` is not of the grammar: `outputs`, `inputs`, `np` and "
            "what computes with them"
        )
    for child in ast.iter_child_nodes(node):
        _check(child)


def evaluate(node: ast.AST | None, names: Mapping[str, Any]) -> Any:
    """Return the value of an expression that was read by `read_expression`."""

    def value(part: ast.AST | None) -> Any:
        return evaluate(part, names)

    match node:
        case None:
            return None
        case ast.Constant():
            return node.value
        case ast.Name():
            return names[node.id] if node.id in names else BUILTINS[node.id]
        case ast.Tuple():
            return tuple(map(value, node.elts))
        case ast.List():
            return list(map(value, node.elts))
        case ast.Attribute():
            return getattr(value(node.value), node.attr)
        case ast.Subscript():
            return value(node.value)[value(node.slice)]
        case ast.Slice():
            return slice(value(node.lower), value(node.upper), value(node.step))
        case ast.UnaryOp():
            return _UNARY[type(node.op)](value(node.operand))
        case ast.BinOp():
            return _BINARY[type(node.op)](value(node.left), value(node.right))
        case ast.IfExp():
            return value(node.body if value(node.test) else node.orelse)
        case ast.BoolOp():
            return _both_or_either(node, value)
        case ast.Compare():
            return _compared(node, value)
        case ast.Call():
            named = {item.arg: value(item.value) for item in node.keywords if item.arg}
            return value(node.func)(*map(value, node.args), **named)
        case _:
            raise KeepError(f"check: {type(node).__name__} is not of the grammar")


def _both_or_either(node: ast.BoolOp, value: Callable[[ast.AST], Any]) -> Any:
    is_and = isinstance(node.op, ast.And)
    found: Any = is_and
    for part in node.values:
        found = value(part)
        if bool(found) is not is_and:
            break
    return found


def _compared(node: ast.Compare, value: Callable[[ast.AST], Any]) -> Any:
    left, found = value(node.left), True
    for op, part in zip(node.ops, node.comparators):
        right = value(part)
        found = _COMPARED[type(op)](left, right)
        if len(node.ops) > 1 and not np.all(found):
            return False
        left = right
    return found


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(exponent, int) and abs(exponent) > MAX_EXPONENT:
        raise KeepError(f"check: an exponent of {exponent} is too large")
    return base**exponent
