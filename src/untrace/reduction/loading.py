"""Read a saved program back, with the values of its inputs: our own files only.

The file is executed and its function is traced on `example_args()`.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import Any

from untrace.capture.capture import capture
from untrace.capture.captured import Captured
from untrace.capture.trees import Leaf, Tree
from untrace.errors import LoadError
from untrace.parsing import parse
from untrace.reduction.applying import program_from
from untrace.reduction.program import Program
from untrace.saved import entered, main_name
from untrace.syntax.names import identifier
from untrace.verification.retrace import execute, restored_settings


def load_program(path: Path, name: str | None = None) -> Program:
    """Load a file written by `Source.save` or by a reduction.

    Args:
      path: Where it is.
      name: Its main function; if None the one that its header names, or that its main
        block calls.

    Raises:
      LoadError: If it cannot be read, or does not define one program and its inputs.
    """
    try:
        text = path.read_text(encoding="utf-8")
        name = name or main_name(text) or _called_name(text)
        if name is None:
            raise LoadError(
                f"{path} has no `example_args()` beside its function: it was not written "
                "by untrace. Give a call as well: untrace reduce FILE 'f(x)'."
            )
        with restored_settings():
            module = execute(text, str(path), str(path.resolve()))
            with entered(module, name, text):
                return _traced(module, name)
    except LoadError:
        raise
    except Exception as error:  # an edited file may fail in any way
        raise LoadError(
            f"cannot load {path}: {type(error).__name__}: {error}"
        ) from error


def _traced(module: Any, name: str) -> Program:
    found = capture(getattr(module, name), (), module.example_args())
    return program_from(found.jaxpr, found.values, input_names(found), name)


def input_names(captured: Captured) -> list[str]:
    """Name the inputs of a program after what leads to them, as briefly as can be.

    A leaf is called by its innermost key that is a name: `params["layers"][0]["up"]` is
    `up`. Names that are taken get a number.
    """
    named: dict[int, str] = {}
    for parameter in captured.parameters:
        _name_leaves(parameter.tree, parameter.name, named)
    made: list[str] = []
    counts: Counter[str] = Counter()
    for index in range(len(captured.values)):
        name = named.get(index, "x")
        counts[name] += 1
        made.append(name if counts[name] == 1 else f"{name}_{counts[name]}")
    return made


def _name_leaves(tree: Tree, name: str, named: dict[int, str]) -> None:
    if isinstance(tree, Leaf):
        named[tree.index] = name
        return
    for key, child in zip(tree.keys, tree.children):
        is_name = isinstance(key, str) and key.isidentifier()
        _name_leaves(child, identifier(key, name) if is_name else name, named)


def _called_name(text: str) -> str | None:
    """Find the function that is called with `**example_args()`."""
    tree = parse(text)
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and any(
            keyword.arg is None and "example_args" in ast.unparse(keyword.value)
            for keyword in node.keywords
        ):
            named = [n.id for n in ast.walk(node.func) if isinstance(n, ast.Name)]
            return next((name for name in named if name in functions), None)
    return None
