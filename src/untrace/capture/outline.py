"""The outline of a tree: its containers, their keys, and what in it is no array.

It is what a caller sees of a result. Two runs of one program give the same outline; the
checker compares that of the original with that of the text.
"""

from __future__ import annotations

import collections.abc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax

from untrace.capture.trees import Leaf, Tree


@dataclass(frozen=True, slots=True)
class Output:
    """An array, by its position among the outputs of the jaxpr."""

    number: int


@dataclass(frozen=True, slots=True)
class Static:
    """A leaf that is no array."""

    value: Any


@dataclass(frozen=True, slots=True)
class Inner:
    """A node: its class, the keys of its children, and what its class keeps beside them.

    A key is that of a dict, a position, or the name of a field; None where the class has
    no names for its children.
    """

    cls: Any
    keys: tuple[Any, ...]
    children: tuple[Outline, ...]
    rest: Any = None


Outline = Output | Static | Inner

BUILTIN = (tuple, list, dict, type(None))
"""Containers of Python that a text writes as they are."""


def outline(value: Any, kept: Iterator[bool]) -> Outline:
    """The outline of a value; `kept` says of each of its leaves whether it is an output."""
    return _outline(value, kept, iter(range(1 << 60)))


def _outline(value: Any, kept: Iterator[bool], numbers: Iterator[int]) -> Outline:
    if value is None:
        return Inner(type(None), (), ())
    flat, treedef = jax.tree_util.tree_flatten_with_path(
        value, is_leaf=lambda child: child is not value
    )
    if treedef.num_nodes == treedef.num_leaves == 1:
        return Output(next(numbers)) if next(kept) else Static(value)
    children = tuple([_outline(child, kept, numbers) for _, child in flat])
    keys = tuple([_key(path[0]) for path, _ in flat])
    rest = None if type(value) in BUILTIN else treedef.node_data()[1]
    return Inner(type(value), keys, children, rest)


def _key(entry: Any) -> Any:
    if isinstance(entry, jax.tree_util.GetAttrKey):
        return entry.name
    if isinstance(entry, jax.tree_util.DictKey):
        return entry.key
    return entry.idx if isinstance(entry, jax.tree_util.SequenceKey) else None


def outline_of_tree(tree: Tree) -> Outline:
    """The outline of a tree that is known by its description alone."""
    if isinstance(tree, Leaf):
        return Output(tree.index)
    if tree.kind == "constant":
        return Static(tree.keys[0])
    kinds = {"tuple": tuple, "list": list, "dict": dict, "none": type(None)}
    children = tuple([outline_of_tree(child) for child in tree.children])
    return Inner(kinds.get(tree.kind, tree.cls), tree.keys, children)


def statics(
    node: Outline, in_class: bool = False
) -> Iterator[tuple[str, Static, bool]]:
    """The leaves that are no arrays: path, leaf, and whether an object holds them."""
    if isinstance(node, Static):
        yield "", node, in_class
    elif isinstance(node, Inner):
        is_class = node.cls not in BUILTIN
        for key, child in zip(node.keys, node.children):
            step = f".{key}" if is_class and key is not None else f"[{key!r}]"
            for path, leaf, inside in statics(child, in_class or is_class):
                yield step + path, leaf, inside


def is_plain_key(key: Any) -> bool:
    """Whether every text can write a key of a dict."""
    if type(key) is tuple:
        parts: tuple[Any, ...] = key
        return all(map(is_plain_key, parts))
    return type(key) in (str, int, float, bool, complex, bytes)


def renamed(node: Outline, names: dict[str, str]) -> Outline:
    """The outline with other keys of mappings, and without the names of fields."""
    if not isinstance(node, Inner):
        return node
    children = tuple([renamed(child, names) for child in node.children])
    keys, rest = node.keys, node.rest
    is_mapping = issubclass(node.cls, collections.abc.Mapping)
    if is_mapping and all(map(is_plain_key, keys)):
        keys = tuple([_renamed_key(key, names) for key in keys])
        rest = _renamed_key(rest, names)
    elif is_mapping or node.cls not in BUILTIN:
        keys = (None,) * len(children)
    return Inner(node.cls, keys, children, rest)


def _renamed_key(key: Any, names: dict[str, str]) -> Any:
    if type(key) in (tuple, list):
        return type(key)([_renamed_key(part, names) for part in key])
    return names.get(key, key) if isinstance(key, str) else key
