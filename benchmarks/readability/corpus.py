"""Find and load the programs and their hand-written equivalents.

A program whose framework is not installed, or does not import on this JAX, is missing
by name with a reason and no part of any score.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PLAIN = {"jax", "functools", "operator", "examples", "typing"}
"""What a program imports that needs no framework."""


@dataclass(frozen=True)
class Program:
    """A program of the corpus.

    Attributes:
      name: Name of its file.
      path: The file that holds the user's code.
      function: What is traced.
      args: Example arguments.
      is_plain: Whether it is written in plain JAX, without a framework.
    """

    name: str
    path: Path
    function: Callable[..., Any]
    args: tuple[Any, ...]
    is_plain: bool


class MissingError(Exception):
    """A program cannot be used here; the message says why."""


def names(is_handwritten: bool = False) -> list[str]:
    """List the names of all programs, or of those with a hand-written equivalent."""
    folder = HERE / ("handwritten" if is_handwritten else "programs")
    files = folder.glob("*.py")
    return sorted(file.stem for file in files if not file.stem.startswith("_"))


def imported_by(name: str) -> set[str]:
    """List the top-level packages that a program imports."""
    return imported((HERE / "programs" / f"{name}.py").read_text())


def load(name: str) -> Program:
    """Import a program and make its arguments.

    Raises:
      MissingError: If its framework does not import here.
    """
    try:
        module = importlib.import_module(f"benchmarks.readability.programs.{name}")
    except (ImportError, AttributeError) as error:
        # Frameworks that lag behind JAX fail on import with either of these.
        raise MissingError(f"{type(error).__name__}: {error}") from error
    function, args = module.program()
    path = Path(str(module.__file__))
    is_plain = imported(path.read_text()) <= PLAIN
    code = getattr(inspect.unwrap(function), "__code__", None)
    if is_plain and code is not None:  # a program may reuse an example's file
        path = Path(code.co_filename)
    return Program(name, path, function, args, is_plain)


def handwritten(
    program: Program,
) -> tuple[Path, Callable[..., Any], tuple[Any, ...]] | None:
    """Find the hand-written equivalent: its file, function and arguments."""
    path = HERE / "handwritten" / f"{program.name}.py"
    if not path.exists():
        return None
    module = importlib.import_module(f"benchmarks.readability.handwritten.{path.stem}")
    function, args = module.program(*program.args)
    return path, function, args


def imported(text: str) -> set[str]:
    """List the top-level packages that a file imports."""
    found: set[str] = set()
    for statement in ast.walk(ast.parse(text)):
        if isinstance(statement, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            found.add(statement.module.partition(".")[0])
    return found
