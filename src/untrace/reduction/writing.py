"""Write a program as Python: for the worker, and as the file that the user gets."""

from __future__ import annotations

import ast
import inspect
import tempfile
from dataclasses import replace
from pathlib import Path

from untrace.capture.captured import Captured
from untrace.capture.parameters import Parameter
from untrace.capture.trees import Leaf, Node, Tree
from untrace.options import Options
from untrace.parsing import parse
from untrace.pipeline import untrace_captured
from untrace.reduction.program import Program
from untrace.result import Source
from untrace.syntax.names import identifier

TRIAL = Options("lax", verify=False)
_STAND_IN = "__untrace_stand_in__"


def captured(program: Program, origin: str = "a program that fails") -> Captured:
    """Describe a program as a function of flat arguments that have exactly its values."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = tuple(
        Parameter(name, kind, Leaf(i))
        for i, name in enumerate(written_names(program.names))
    )
    return Captured(
        program.block.jaxpr,
        program.name,
        origin,
        parameters,
        _result(len(program.block.outputs)),
        program.values,
        is_exact=True,
    )


def written(program: Program, options: Options = TRIAL) -> Source:
    """Write a program, whose example inputs are its values."""
    return untrace_captured(captured(program), options)


def trial_source(program: Program) -> Source:
    """Write the module that a worker executes.

    The worker is given the values of the inputs, so that they are not written out.
    """
    described = captured(program)
    abstract = tuple(None for _ in described.values)
    return untrace_captured(replace(described, values=abstract), TRIAL)


def stand_ins(source: Source) -> list[str]:
    """Return the names of the functions that a text has stand-ins for."""
    found = [
        f"`{node.value.value}`"
        for node in parse(str(source)).body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Attribute)
        and node.targets[0].attr == _STAND_IN
        and isinstance(node.value, ast.Constant)
    ]
    return list(dict.fromkeys(found))


def saved(source: Source) -> tuple[str, bytes]:
    """Return what `Source.save` writes: the text, and the sidecar (empty if none)."""
    with tempfile.TemporaryDirectory(prefix="untrace-") as folder:
        path = source.save(Path(folder) / f"{source.module.name}.py")
        sidecar = path.with_suffix(".safetensors")
        stored = sidecar.read_bytes() if sidecar.exists() else b""
        return path.read_text(encoding="utf-8"), stored


def _result(n: int) -> Tree:
    leaves = tuple(Leaf(i) for i in range(n))
    return leaves[0] if n == 1 else Node("tuple", None, tuple(range(n)), leaves)


def written_names(names: tuple[str, ...]) -> list[str]:
    """Return what the inputs are called in the text."""
    made: list[str] = []
    taken = {name for name in names if name}
    for i, name in enumerate(names):
        called = identifier(name, f"x{i}") if name else f"x{i}"
        while called in made or (not name and called in taken):
            called += "_"
        made.append(called)
    return made
