"""How tightly Python's expressions bind: the one table of operator precedence."""

from __future__ import annotations

import ast

# From loose to tight, as in Python's grammar.
TUPLE, LAMBDA, COMPARE, OR, XOR, AND, SHIFT, ADD, MUL, UNARY, POWER, ATOM = range(12)

SYMBOLS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.MatMult: "@",
    ast.Pow: "**",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}
LEVELS = {
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), COMPARE),
    "|": OR,
    "^": XOR,
    "&": AND,
    **dict.fromkeys(("<<", ">>"), SHIFT),
    **dict.fromkeys(("+", "-"), ADD),
    **dict.fromkeys(("*", "/", "//", "%", "@"), MUL),
    "**": POWER,
}
"""The level of each binary operator. All group to the left but the power."""
COMPARED = SHIFT
"""That of what is compared: `(x & bit) == 0` has brackets, since other languages need them."""


def level_of(node: ast.expr) -> int:
    """Return how tightly an expression binds; a tuple is one without parentheses.

    A number binds as a sign does, since `2.real` is none and `-2**2` is another one.
    """
    if isinstance(node, ast.BinOp):
        return LEVELS[SYMBOLS[type(node.op)]]
    if isinstance(node, ast.UnaryOp):
        return COMPARE if isinstance(node.op, ast.Not) else UNARY
    if isinstance(node, ast.Compare):
        return COMPARE
    if isinstance(node, (ast.Lambda, ast.IfExp, ast.BoolOp)):
        return LAMBDA
    if isinstance(node, (ast.Tuple, ast.NamedExpr, ast.Starred)):
        return TUPLE
    is_number = isinstance(node, ast.Constant) and not isinstance(node.value, str)
    return UNARY if is_number else ATOM


def level_at(node: ast.expr, parent: ast.AST) -> int:
    """Return how tightly an expression must bind to stand where another one does.

    Args:
      node: The other one.
      parent: What it is a part of.
    """
    if isinstance(parent, ast.BinOp):
        if isinstance(parent.op, ast.Pow):
            return ATOM
        level = LEVELS[SYMBOLS[type(parent.op)]]
        return level if parent.left is node else level + 1
    if isinstance(parent, ast.Compare):
        return COMPARED
    is_owner = (isinstance(parent, ast.Subscript) and parent.value is node) or (
        isinstance(parent, ast.Call) and parent.func is node
    )
    if is_owner or isinstance(parent, (ast.UnaryOp, ast.Attribute, ast.Starred)):
        return ATOM
    return LAMBDA
