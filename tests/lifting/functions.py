"""Functions to change, written as Python writes them."""

import ast
from typing import Any

from untrace.lifting.heads import Parameter, Parameters, head_text
from untrace.lifting.printing import Function


def parameters(text: str) -> Parameters:
    """The parameters of a list as it is written: `x, *, by=2.0`."""
    (made,) = ast.parse(f"def f({text}): ...").body
    assert isinstance(made, ast.FunctionDef)
    args = made.args
    n_given = len(args.args) - len(args.defaults)
    pairs = zip(args.args, [None] * n_given + [*args.defaults])
    found = [Parameter(one.arg, default_text(default)) for one, default in pairs]
    if args.vararg:
        found.append(Parameter(args.vararg.arg, stars="*"))
    found += [
        Parameter(one.arg, default_text(default), is_keyword=True)
        for one, default in zip(args.kwonlyargs, args.kw_defaults)
    ]
    if args.kwarg:
        found.append(Parameter(args.kwarg.arg, stars="**"))
    return tuple(found)


def default_text(default: ast.expr | None) -> str:
    """The text of a default; "" if there is none."""
    return "" if default is None else ast.unparse(default)


def function(name: str, head: str, *lines: str, **more: Any) -> Function:
    """A function of some lines."""
    return Function(name, parameters(head), list(lines), **more)


def head_of(made: Function) -> str:
    """The parameters of a function as they are written."""
    return head_text(made.parameters)
