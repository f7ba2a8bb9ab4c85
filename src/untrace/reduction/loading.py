"""Read a saved program back, with the values of its inputs, to be reduced."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from untrace.capture.captured import Captured
from untrace.capture.trees import Leaf, Tree
from untrace.parsing import parse
from untrace.reduction.applying import program_from
from untrace.reduction.program import Program
from untrace.saved_program import cannot_load, open_saved
from untrace.syntax.names import identifier


def load_program(path: Path, name: str | None = None) -> Program:
    """Load a file written by `Source.save` or by a reduction.

    Args:
      path: Where it is.
      name: Its main function; if None the one that its header names, or that its main
        block calls.

    Raises:
      LoadError: If it cannot be read, or does not define one program and its inputs.
    """
    saved = open_saved(path, name)
    found = saved.captured()
    try:
        return program_from(found.jaxpr, found.values, input_names(found), saved.name)
    except Exception as error:  # an edited file may hold any equations
        raise cannot_load(path, error) from error


def drawn_in(path: Path) -> str:
    """Say that a saved file draws its inputs, if it does; "" if it carries them.

    What a reduction drew itself was tried: its file is not meant.
    """
    tree = parse(path.read_text(encoding="utf-8"))
    title = ast.get_docstring(tree) or ""
    if "Reduced by untrace" in title:
        return ""
    examples = (
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == "example_args"
    )
    drawing = any(
        isinstance(node, ast.Attribute) and node.attr == "default_rng"
        for function in examples
        for node in ast.walk(function)
    )
    if not drawing:
        return ""
    return (
        f"The inputs were drawn: {path.name} holds none of those that it was made with. "
        "A failure that depends on values may need them: save it with `--inputs given`."
    )


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
