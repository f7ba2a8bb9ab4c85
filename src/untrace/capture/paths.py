"""Trees from the paths that JAX keeps of arguments and results: `params['w'][0]`, `state.mu`.

A jaxpr has flat inputs; its debug info names each by the path that led to it. Paths are
read by a small grammar and never evaluated: a name, then any of `[0]`, `['key']` and
`.field`. Where they can mean one tree only (items in order and without gaps, keys in the
order in which JAX sorts them), that tree is given back; sequences become tuples, and
objects with fields NamedTuples, which hold the same leaves in the same order.
"""

from __future__ import annotations

import collections
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from untrace.capture.trees import Leaf, Node, Tree
from untrace.syntax.names import identifier

MAX_DEPTH = 32

_ROOT = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_STEP = re.compile(
    r"\[(?P<index>\d{1,9})\]"
    r"|\[(?P<quote>['\"])(?P<key>[^'\"\\\n]*)(?P=quote)\]"
    r"|\.(?P<field>[A-Za-z]\w*)",
    re.ASCII,
)

Step = tuple[str, Any]
Classes = dict[tuple[str, ...], type]
_NONE: tuple[str, list[Step]] = ("", [])


@dataclass(slots=True)
class _Branch:
    """A tree being put together: its children by the steps that lead to them."""

    children: dict[Step, _Branch] = field(default_factory=dict)
    leaf: int | None = None


def argument_trees(paths: Sequence[str], classes: Classes) -> list[tuple[str, Tree]]:
    """Put the inputs of a jaxpr together to arguments.

    Args:
      paths: The path of each input, in order.
      classes: What stands for objects, by their fields; new ones are added.

    Returns:
      Names and trees of the arguments, whose leaves are numbered as the inputs are.
      Inputs whose paths say nothing, or may mean several trees, stay by themselves.
    """
    parsed = [_parsed(path) for path in paths]
    groups = itertools.groupby(range(len(paths)), lambda i: (parsed[i] or _NONE)[0])
    runs = [(name, list(numbers)) for name, numbers in groups]
    counts = collections.Counter(name for name, _ in runs)
    found: list[tuple[str, Tree]] = []
    for name, numbers in runs:
        steps = {i: known[1] for i in numbers if (known := parsed[i]) is not None}
        tree = _together(steps, name, classes) if counts[name] == 1 else None
        if name and tree is not None:
            found.append((name, tree))
        else:
            found += [(paths[i], Leaf(i)) for i in numbers]
    return found


def result_tree(paths: Sequence[str], classes: Classes) -> Tree | None:
    """Put the outputs of a jaxpr together; None if their paths do not tell how."""
    trees = argument_trees(paths, classes)
    return trees[0][1] if len(trees) == 1 else None


def _parsed(path: str) -> tuple[str, list[Step]] | None:
    """Read a path; None if it is none."""
    root = _ROOT.match(path)
    if root is None:
        return None
    steps: list[Step] = []
    end = root.end()
    while end < len(path):
        step = _STEP.match(path, end)
        if step is None or len(steps) == MAX_DEPTH:
            return None
        steps.append(_step(step))
        end = step.end()
    return root[0], steps


def _step(step: re.Match[str]) -> Step:
    if step["index"] is not None:
        return "tuple", int(step["index"])
    if step["field"] is not None:
        return "replaced", step["field"]
    return "dict", step["key"]


def _together(steps: dict[int, list[Step]], name: str, classes: Classes) -> Tree | None:
    """Put leaves together to one tree, if they make one."""
    root = _Branch()
    for number, way in steps.items():
        if not _add(root, way, number):
            return None
    return _tree(root, name, classes)


def _add(branch: _Branch, steps: list[Step], number: int) -> bool:
    """Add a leaf; tell whether it comes after all others, and at no other's place."""
    for step in steps:
        known = branch.children
        if branch.leaf is not None:
            return False
        if step in known and step != next(reversed(known)):
            return False
        branch = known.setdefault(step, _Branch())
    if branch.children or branch.leaf is not None:
        return False
    branch.leaf = number
    return True


def _tree(branch: _Branch, name: str, classes: Classes) -> Tree | None:
    """Make the only tree that has these children in this order, if there is one."""
    if branch.leaf is not None:
        return Leaf(branch.leaf)
    children = [_tree(child, name, classes) for child in branch.children.values()]
    kinds = {kind for kind, _ in branch.children}
    keys = tuple(key for _, key in branch.children)
    found = tuple(child for child in children if child is not None)
    if len(kinds) != 1 or len(found) != len(children):
        return None
    (kind,) = kinds
    if kind == "tuple" and keys != tuple(range(len(keys))):
        return None  # what has no leaves may stand in a gap
    if kind == "dict" and list(keys) != sorted(keys):
        return None
    if kind == "replaced" and any(identifier(key) != key for key in keys):
        return None
    if kind != "replaced":
        return Node(kind, None, keys, found)
    cls = classes.get(keys)
    if cls is None:
        cls = classes[keys] = _unknown(name)
    return Node(kind, cls, keys, found)


def _unknown(name: str) -> type:
    """Return a class in the place of one of which only the fields are known."""
    words = identifier(name, "tree").strip("_").split("_")
    title = "".join(word[:1].upper() + word[1:] for word in words)
    return type(title, (), {"__module__": "", "__qualname__": title})
