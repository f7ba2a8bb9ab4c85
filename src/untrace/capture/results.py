"""What a function returns: arrays, and what else a text can say; the rest is refused."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

from untrace import jaxapi
from untrace.capture.convention import TRACED
from untrace.capture.inputs import are_dynamic
from untrace.capture.numbering import number
from untrace.capture.outline import Outline, outline, statics
from untrace.capture.trees import Node, Tree, describe
from untrace.errors import CaptureError

_LITERALS = (str, bytes)


class Result(NamedTuple):
    """A result, taken apart.

    Attributes:
      tree: Its description, whose leaves they are.
      treedef: Its tree.
      leaves: Its leaves; `TRACED` for arrays.
    """

    arrays: list[Any]
    tree: Tree
    outline: Outline
    treedef: Any
    leaves: tuple[Any, ...]


def read_result(result: Any, name: str) -> Result:
    """Take a result apart.

    Raises:
      CaptureError: If a leaf is no array and no text, and no registered class holds it.
    """
    leaves, treedef = jax.tree.flatten(result)
    kept = are_dynamic([result], ())
    shape = outline(result, iter(kept))
    literals: dict[int, Node] = {}
    others = [i for i, is_kept in enumerate(kept) if not is_kept]
    for i, (path, leaf, in_class) in zip(others, statics(shape)):
        if in_class:
            continue
        if type(leaf.value) not in _LITERALS:
            raise CaptureError(_refused(name, path, type(leaf.value).__name__))
        literals[i] = Node("constant", None, (leaf.value,), ())
    with jaxapi.outside_traces():  # classes may compute when they are made
        tree = describe(result)
    arrays = [leaf for leaf, is_kept in zip(leaves, kept) if is_kept]
    shown = tuple([TRACED if k else leaf for leaf, k in zip(leaves, kept)])
    return Result(arrays, number(tree, kept, literals), shape, treedef, shown)


def _refused(name: str, path: str, kind: str) -> str:
    where = f" at `{path}` of its result" if path else ""
    return (
        f"`{name}` returns a {kind}{where}, which is no array and no tree that JAX knows, "
        "so `jax.jit` would refuse it, too. Return its arrays in tuples, lists or dicts, "
        "or register its class (`jax.tree_util.register_dataclass`)."
    )


def left_out(shape: Outline) -> list[str]:
    """Say what a text does not return: leaves of objects that are no arrays."""
    kinds = {
        type(leaf.value).__name__ for _, leaf, in_class in statics(shape) if in_class
    }
    if not kinds:
        return []
    listed = ", ".join(sorted(kinds))
    return [f"Leaves that are not arrays are left out of the result: {listed}."]
