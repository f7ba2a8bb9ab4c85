"""Change how a finished text gets the arrays that it does not write out.

A text is laid out and verified before it is known where they are: in a file beside it,
or in the text itself. Both are a function `load_arrays` and one call of it, which are
found by parsing, and nothing else is changed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from untrace.parsing import parse

LOADER = "load_arrays"


def with_call(
    body: str,
    arguments: Sequence[str],
    loader: Callable[[str], str] | None = None,
) -> str:
    """Call the loader of a module with other arguments.

    Args:
      body: The text after the docstring, which defines `load_arrays` and calls it.
      arguments: The texts of literals. Where there is another loader, they are one
        string in parts, one a line.
      loader: Makes the text of another loader, given the name of NumPy.
    """
    tree = parse(body)
    lines = body.split("\n")
    call, called = next(
        (statement, node)
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and _is_name(node.func, LOADER)
    )
    head = lines[called.lineno - 1].encode()[: called.col_offset].decode()
    made = [f"{head}{LOADER}({', '.join(arguments)})"]
    if loader is not None:
        parts = [f"    {part}" for part in arguments]
        made = [f"{head}{LOADER}(", *parts, ")"]
    lines[call.lineno - 1 : call.end_lineno] = made
    if loader is None:
        return "\n".join(lines)
    # It stands before its call, whose lines do not matter to it.
    function = next(
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == LOADER
    )
    text = loader(_name_of_numpy(function)).rstrip("\n")
    lines[function.lineno - 1 : function.end_lineno] = text.split("\n")
    return "\n".join(lines)


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _name_of_numpy(function: ast.FunctionDef) -> str:
    """The name of the module whose `frombuffer` the reader calls."""
    return next(
        node.value.id
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and node.attr == "frombuffer"
        and isinstance(node.value, ast.Name)
    )
