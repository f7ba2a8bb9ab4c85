"""Read a saved program back, with the values of its inputs: our own files only.

The file is executed and its function is traced on `example_args()`.
"""

from __future__ import annotations

import ast
import contextlib
from pathlib import Path
from typing import Any

from untrace.capture.capture import capture, capture_jaxpr
from untrace.errors import LoadError
from untrace.reduction.applying import program_from
from untrace.reduction.program import Program
from untrace.verification.retrace import execute, restored_settings


def load_program(path: Path, name: str | None = None) -> Program:
    """Load a file written by `Source.save` or by a reduction.

    Args:
      path: Where it is.
      name: Its main function; the one that its main block calls if None.

    Raises:
      LoadError: If it cannot be read, or does not define one program and its inputs.
    """
    try:
        text = path.read_text(encoding="utf-8")
        name = name or _main_name(text)
        if name is None:
            raise LoadError(
                f"{path} has no `example_args()` beside its function: it was not written "
                "by untrace. Give a call as well: untrace reduce FILE 'f(x)'."
            )
        with restored_settings():
            module = execute(text, str(path), str(path.resolve()))
            return _traced(module, name)
    except LoadError:
        raise
    except Exception as error:  # an edited file may fail in any way
        raise LoadError(
            f"cannot load {path}: {type(error).__name__}: {error}"
        ) from error


def _traced(module: Any, name: str) -> Program:
    context = getattr(module, "tracing_context", contextlib.nullcontext)
    with context():
        found = capture(getattr(module, name), (), module.example_args())
    flat = capture_jaxpr(found.jaxpr)
    names = [parameter.name for parameter in flat.parameters]
    return program_from(found.jaxpr, found.values, names, name)


def _main_name(text: str) -> str | None:
    """Find the function that is called with `**example_args()`."""
    tree = ast.parse(text)
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and any(
            keyword.arg is None and "example_args" in ast.unparse(keyword.value)
            for keyword in node.keywords
        ):
            named = [n.id for n in ast.walk(node.func) if isinstance(n, ast.Name)]
            return next((name for name in named if name in functions), None)
    return None
