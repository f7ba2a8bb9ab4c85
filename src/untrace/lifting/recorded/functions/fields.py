"""Which fields the stand-ins of a library's classes need: those that the program reads.

A library's object keeps what any of its methods may want. Where it is neither an input
nor an output of the program, its stand-in has the fields that the finished text reads;
of several that hold one value that is the one with the shortest name.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from typing import Any

from untrace.capture.trees import Leaf, Node, Tree, replaced_key, replaced_nodes
from untrace.optional import gives, makes, optional
from untrace.recovery.record import is_library_class
from untrace.syntax.parsed import parsed

Field = tuple[Any, str]
"""A class, and the name of a field of its stand-in."""

StandIns = dict[Any, tuple[str, list[str]]]
"""Names and text of stand-ins, by their classes and fields."""


@optional(makes(set))
def unread_fields(
    classes: Collection[tuple[Any, Sequence[str]]],
    shown: Iterable[Tree],
    texts: Iterable[str],
) -> set[Field]:
    """Return the fields of stand-ins that a program has no need for.

    Args:
      classes: The classes that have stand-ins, and the fields of these.
      shown: What the program takes and returns, which has to be whole.
      texts: Its functions.
    """
    whole = {cls for tree in shown for cls in _classes(tree)}
    unread = {
        (cls, name)
        for cls, names in classes
        if cls not in whole and is_library_class(cls)
        for name in names
    }
    for text in texts:
        if any(f".{name}" in text for _, name in unread):
            nodes = parsed(text).nodes
            read = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
            unread = {field for field in unread if field[1] not in read}
    return unread


def _classes(tree: Tree) -> Iterator[type]:
    """Yield the classes of a tree's nodes, whether or not files have stand-ins for them."""
    if isinstance(tree, Node):
        if tree.cls is not None:
            yield tree.cls
        for child in tree.children:
            yield from _classes(child)


@optional(gives(None))
def keep_used(classes: StandIns, shown: Iterable[Tree], texts: Iterable[str]) -> None:
    """Forget the stand-ins that neither texts nor the inputs of a program have."""
    taken = {replaced_key(node) for tree in shown for node in replaced_nodes(tree)}
    unused = {key: name for key, (name, _) in classes.items() if key not in taken}
    for text in texts:
        if any(name in text for name in unused.values()):
            words = parsed(text).words()
            unused = {key: name for key, name in unused.items() if name not in words}
    for key in unused:
        del classes[key]


@optional(makes(list))
def origins(classes: StandIns) -> list[str]:
    """Say what the stand-ins stand for."""
    lines = [
        f"`{name}` stands for {cls.__module__}.{cls.__qualname__}, whose arrays it holds."
        for (cls, _), (name, _) in classes.items()
    ]
    return list(dict.fromkeys(lines))


def without(tree: Tree, unread: Set[Field]) -> Tree:
    """Leave fields out of a tree, whose leaves keep their numbers."""
    if isinstance(tree, Leaf) or not (unread and tree.children):
        return tree
    is_replaced = tree.kind == "replaced"
    kept = [
        (key, without(child, unread))
        for key, child in zip(tree.keys, tree.children)
        if not (is_replaced and (tree.cls, key) in unread)
    ]
    keys, children = tuple(k for k, _ in kept), tuple(c for _, c in kept)
    return replace(tree, keys=keys, children=children)


def by_length(tree: Node) -> list[tuple[Any, Tree]]:
    """List the children of a node; those of a stand-in with short names first."""
    pairs = list(zip(tree.keys, tree.children))
    if tree.kind == "replaced":
        pairs.sort(key=lambda pair: len(pair[0]))
    return pairs
