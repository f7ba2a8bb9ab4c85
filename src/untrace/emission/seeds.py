"""Change the seed from which a finished text draws its example inputs."""

from __future__ import annotations

import ast
from typing import TypeGuard

from untrace.parsing import parse

EXAMPLES = "example_args"
GENERATOR = "default_rng"


def with_seed(body: str, seed: int) -> str | None:
    """Draw the example inputs of a module from another seed.

    Args:
      body: The text after the docstring.
      seed: The seed; one digit keeps the layout.

    Returns:
      The text, in which nothing else is changed; None if it draws nothing.
    """
    number = next(
        (
            node.args[0]
            for function in parse(body).body
            if isinstance(function, ast.FunctionDef) and function.name == EXAMPLES
            for node in ast.walk(function)
            if _is_generator(node)
        ),
        None,
    )
    if number is None or number.end_col_offset is None:
        return None
    lines = body.split("\n")
    line = lines[number.lineno - 1].encode()
    head, tail = line[: number.col_offset], line[number.end_col_offset :]
    lines[number.lineno - 1] = f"{head.decode()}{seed}{tail.decode()}"
    return "\n".join(lines)


def _is_generator(node: ast.AST) -> TypeGuard[ast.Call]:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == GENERATOR
        and len(node.args) == 1
    )
