"""Describe instances of classes of libraries as what stands for them in a file.

A file that is written from equations says its arguments in plain containers, where types
are not to be kept; what it returns is described by the classes that it was made of, which
the file would have to import.
"""

from __future__ import annotations

import collections.abc
from dataclasses import replace

from untrace.capture.captured import Captured
from untrace.capture.trees import MAPPINGS, Leaf, Tree


def without_types(captured: Captured) -> Captured:
    """Describe what a program takes and returns without classes that are imported."""
    parameters = [
        replace(parameter, tree=with_stand_ins(parameter.tree))
        for parameter in captured.parameters
    ]
    result = with_stand_ins(captured.result)
    return replace(captured, parameters=tuple(parameters), result=result)


def with_stand_ins(tree: Tree) -> Tree:
    """Turn mappings of a tree into dicts, and other classes into NamedTuples."""
    if isinstance(tree, Leaf):
        return tree
    children = tuple([with_stand_ins(child) for child in tree.children])
    tree = replace(tree, children=children)
    if tree.kind not in ("fields", "items") or tree.cls in MAPPINGS:
        return tree
    if tree.kind == "items" or issubclass(tree.cls, collections.abc.Mapping):
        return replace(tree, kind="dict", cls=None)
    return replace(tree, kind="replaced", settings=())
