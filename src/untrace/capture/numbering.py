"""Number the leaves of described trees by the inputs of a jaxpr."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from untrace.capture.trees import MAPPINGS, Leaf, Node, Tree, legal_fields


def renumbered(tree: Tree, indices: list[int]) -> Tree:
    if isinstance(tree, Leaf):
        return Leaf(indices[tree.index])
    children = tuple([renumbered(child, indices) for child in tree.children])
    return replace(tree, children=children)


def number(tree: Tree, kept: Sequence[bool], literals: Mapping[int, Node]) -> Tree:
    """Renumber leaves after those that are not arrays have gone, or become literals."""
    numbers: dict[int, int | Node | None] = {}
    count = 0
    for index, is_kept in enumerate(kept):
        numbers[index] = count if is_kept else literals.get(index)
        count += is_kept
    found = dropped(tree, numbers)
    return found if found is not None else Node("none", None, (), ())


def dropped(tree: Tree, numbers: Mapping[int, int | Node | None]) -> Tree | None:
    if isinstance(tree, Leaf):
        number = numbers[tree.index]
        return Leaf(number) if isinstance(number, int) else number
    pairs = [
        (key, dropped(child, numbers)) for key, child in zip(tree.keys, tree.children)
    ]
    kept = [(key, child) for key, child in pairs if child is not None]
    if len(kept) == len(pairs):
        return replace(tree, children=tuple([child for _, child in kept]))
    kind, cls = (
        ("replaced", tree.cls)
        if tree.kind in ("fields", "items", "sparse") and tree.cls not in MAPPINGS
        else (tree.kind, tree.cls)
    )
    if kind in ("tuple", "list"):
        keys: tuple[Any, ...] = tuple(range(len(kept)))
    else:
        keys = tuple(key for key, _ in kept)
        if kind == "replaced":
            keys = tuple(legal_fields(map(str, keys)))
    settings = tree.settings if kind == "items" else ()
    return Node(kind, cls, keys, tuple(child for _, child in kept), settings)
