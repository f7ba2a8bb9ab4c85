"""A program in 64 bits: what float32 is in it becomes float64, and inputs are widened."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.errors import LiftingError
from untrace.ir import all_blocks
from untrace.options import Options
from untrace.parsing import parse
from untrace.reduction.applying import apply
from untrace.reduction.program import Program
from untrace.reduction.simpler_types import retyped
from untrace.reduction.writing import written

FLOAT64 = {np.dtype(np.float32): np.dtype(np.float64)}
"""What "in 64 bits" means for a program in 32 bits."""

_WIDE = frozenset({"float64", "int64", "uint64", "complex128"})

_API = Options("api", comments="none")
_INPUTS = "example_args"


def in_64_bits(program: Program) -> Program | None:
    """Return a program in 64 bits, made where those are enabled; None if there is none."""
    edits = retyped(program, FLOAT64)
    return program if edits is None else apply(program, edits)


def idle_settings(program: Program) -> list[str]:
    """List the settings of this process that a program need not be traced under."""
    is_wide = any(map(_has_64_bits, _avals(program)))
    changed = jaxapi.set_managers()
    return [name for name in changed if not (is_wide and name == "enable_x64")]


def _avals(program: Program) -> Iterator[Any]:
    for block in all_blocks(program.block):
        yield from (value.aval for value in (*block.inputs, *block.outputs))
        for eqn in block.equations:
            yield from eqn.result_avals


def _has_64_bits(aval: Any) -> bool:
    return str(getattr(aval, "dtype", "")) in _WIDE


def definitions_in_64_bits(program: Program) -> list[str]:
    """Return the statements that define a program in 64 bits, and its inputs.

    Nothing is returned where the function of 32 bits does with wider inputs, or where
    there is none that a file without a sidecar can hold.
    """
    try:
        narrow = _definitions(program)
        with jax.enable_x64(True):
            wide = in_64_bits(program)
            defined = {} if wide is None else _definitions(wide)
    except LiftingError:
        return []
    own = {name: text for name, text in defined.items() if name != _INPUTS}
    if own == {name: text for name, text in narrow.items() if name != _INPUTS}:
        return []
    return [line for text in defined.values() for line in text.splitlines()]


def _definitions(program: Program) -> dict[str, str]:
    """Return the statements of a file between its imports and its main block."""
    source = written(program, _API)
    if source.module.stored:
        return {}
    text = str(source)
    lines = text.splitlines()
    found: dict[str, str] = {}
    for node in parse(text).body:
        if isinstance(node, (ast.Import, ast.ImportFrom, ast.If, ast.Expr)):
            continue
        decorated = [x for x in getattr(node, "decorator_list", []) if not _widens(x)]
        first = min(part.lineno for part in (node, *decorated))
        name = getattr(node, "name", f"line {first}")
        found[name] = "\n".join(lines[first - 1 : node.end_lineno])
    return found


def _widens(decorator: ast.expr) -> bool:
    """Whether a decorator enables 64 bits, which is so around all of it."""
    called = getattr(decorator, "func", None)
    return isinstance(called, ast.Attribute) and called.attr == "enable_x64"
