"""What a property that computes with attributes gives, without running it.

`head_dim` of a frozen dataclass is `self.dim // self.heads`: the expression that it returns is
evaluated with what the object holds, so that the number that it gives is known.
"""

from __future__ import annotations

import ast
import functools
import operator
import types
from collections.abc import Callable
from typing import Any

from untrace.recovery.expressions import source_tree, static_attribute
from untrace.syntax.precedence import SYMBOLS

MAX_DEPTH = 8
_Number = int | float
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
    "//": operator.floordiv,
}
"""What operators compute, by how they are written."""


def property_value(held: property, owner: Any, depth: int = 0) -> _Number | None:
    """Return the number that a property of an object gives; None if it is not plain."""
    if not isinstance(held.fget, types.FunctionType) or depth > MAX_DEPTH:
        return None
    code = held.fget.__code__
    returned = _returned(code)
    if returned is None:
        return None
    return _evaluated(returned, code.co_varnames[0], owner, depth)


@functools.lru_cache(maxsize=1024)
def _returned(code: types.CodeType) -> ast.expr | None:
    """Return what a function of one parameter returns, if that is all that it does."""
    tree = source_tree(code.co_filename)
    for node in ast.walk(tree) if tree is not None and code.co_argcount else ():
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *[one.lineno for one in node.decorator_list]])
            if first != code.co_firstlineno:
                continue
            documented = ast.get_docstring(node) is not None
            body = node.body[1:] if documented else node.body
            if len(body) == 1 and isinstance(body[0], ast.Return):
                return body[0].value
    return None


def _evaluated(node: ast.expr, name: str, owner: Any, depth: int) -> _Number | None:
    """Evaluate arithmetic on numbers and on attributes of what the parameter holds."""
    if isinstance(node, ast.Constant):
        return _number(node.value)
    if isinstance(node, ast.Attribute):
        holder = _held(node.value, name, owner)
        value = None if holder is None else static_attribute(holder, node.attr)
        if isinstance(value, property):
            return property_value(value, holder, depth + 1)
        return _number(value)
    compute = (
        BINARY.get(SYMBOLS[type(node.op)]) if isinstance(node, ast.BinOp) else None
    )
    if isinstance(node, ast.BinOp) and compute is not None:
        left = _evaluated(node.left, name, owner, depth)
        right = _evaluated(node.right, name, owner, depth)
        if left is not None and right is not None:
            try:
                return _number(compute(left, right))
            except ArithmeticError:
                return None
    return None


def _held(node: ast.expr, name: str, owner: Any) -> Any:
    """Return what the parameter, or attributes of it, hold."""
    if isinstance(node, ast.Name):
        return owner if node.id == name else None
    if isinstance(node, ast.Attribute):
        holder = _held(node.value, name, owner)
        return None if holder is None else static_attribute(holder, node.attr)
    return None


def _number(value: Any) -> _Number | None:
    return value if type(value) in (int, float) else None
