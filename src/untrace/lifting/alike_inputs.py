"""Find out which parts of large inputs are alike: the layers of a model, its moments.

They differ in their values, which are drawn anyway. The leaves of parts that have the same
structure, shapes and dtypes are drawn alike, so that the example is written for one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from untrace import jaxapi
from untrace.capture.trees import Leaf, Node, Tree, leaves
from untrace.syntax.names import Scope, identifier

MIN_LEAVES = 16
"""Fewest leaves that parts have together which are drawn alike."""

_ROWS = ("dict", "list", "tuple")


@dataclass(eq=False, slots=True)
class Input:
    """A leaf: its value, its type, and the expression that makes an example of it."""

    value: Any
    aval: Any
    text: str

    def kind(self) -> Any:
        """Tell what examples of two leaves have to have in common."""
        if not self.is_drawn():
            return self.text
        return self.aval.shape, self.aval.dtype, self.aval.weak_type

    def is_drawn(self) -> bool:
        """Whether it is an array that another one may be drawn for."""
        value, aval = self.value, self.aval
        if value is None or jaxapi.is_ref_aval(aval) or jaxapi.is_token(aval):
            return False
        is_plain = jaxapi.is_concrete(value) and not jaxapi.is_python_scalar(value)
        is_scalar = getattr(aval, "weak_type", False) and aval.shape == ()
        return is_plain and not is_scalar and jaxapi.placement(value, aval) is None


@dataclass(eq=False, slots=True)
class AlikeInputs:
    """The leaves that are drawn alike, and what subtrees have in common.

    Attributes:
      inputs: All leaves, by their index.
    """

    inputs: Sequence[Input]
    _kinds: dict[Any, int] = field(default_factory=dict)
    _known: dict[int, int] = field(default_factory=dict)
    _first: dict[int, int] = field(default_factory=dict)

    def kind(self, tree: Tree) -> int:
        """Return a number that alike trees have in common."""
        if id(tree) not in self._known:
            made = self._made(tree)
            self._known[id(tree)] = self._kinds.setdefault(made, len(self._kinds))
        return self._known[id(tree)]

    def _made(self, tree: Tree) -> Any:
        if isinstance(tree, Leaf):
            return self.inputs[tree.index].kind()
        children = tuple([self.kind(child) for child in tree.children])
        return tree.kind, tree.cls, tree.keys, children, repr(tree.settings)

    def of(self, tree: Tree) -> Iterator[Input]:
        """Yield the leaves of a tree."""
        return (self.inputs[index] for index in leaves(tree))

    def join(self, tree: Tree) -> None:
        """Note which leaves are to be drawn alike."""
        if isinstance(tree, Leaf):
            return
        alike: dict[int, list[list[int]]] = {}
        for child in tree.children if tree.kind in _ROWS else ():
            if isinstance(child, Node):
                alike.setdefault(self.kind(child), []).append(list(leaves(child)))
        for rows in alike.values():
            if len(rows) > 1 and len(rows) * len(rows[0]) >= MIN_LEAVES:
                for column in zip(*rows):
                    self._join(column)
        for child in tree.children:
            self.join(child)

    def _join(self, column: Sequence[int]) -> None:
        firsts = {self._find(index) for index in column}
        lowest = min(firsts)
        self._first.update(dict.fromkeys(firsts, lowest))

    def _find(self, index: int) -> int:
        while self._first.get(index, index) != index:
            index = self._first[index]
        return index

    def groups(self) -> Iterator[list[int]]:
        """Yield the leaves that are to be drawn alike and are not yet."""
        found: dict[int, list[int]] = {}
        for index in range(len(self.inputs)):
            found.setdefault(self._find(index), []).append(index)
        for group in found.values():
            if len({self.inputs[index].text for index in group}) > 1:
                yield group


def zeros_of_others(
    trees: Mapping[str, Tree], alike: AlikeInputs, scope: Scope
) -> tuple[dict[str, Tree], dict[int, str]]:
    """Find large subtrees of zeros that have the structure of other trees.

    Args:
      trees: The arguments by their names.
      alike: What their subtrees have in common.
      scope: The names that the module has.

    Returns:
      The trees that others are made of, by the names of variables for them: arguments or
      parts of these; and what is written for both, by their `id`.
    """
    zeros: list[tuple[str, Node]] = []
    named: dict[int, tuple[str, Node]] = {}

    def name_it(key: str, node: Node) -> None:
        is_free = identifier(key) == key and not (key in trees or scope.is_taken(key))
        is_free = (is_free or trees.get(key) is node) and key != "rng"  # the generator
        if is_free and all(leaf.is_drawn() for leaf in alike.of(node)):
            named.setdefault(alike.kind(node), (key, node))

    for argument, tree in trees.items():
        for key, node in _nodes(argument, tree):
            if not _is_large(node):
                continue
            if all(map(_is_zero, alike.of(node))):
                zeros.append((key, node))
            else:
                name_it(key, node)
    for key, node in zeros:  # the others are like the first one then
        name_it(key, node)
    others: dict[str, Tree] = {}
    made: dict[int, str] = {}
    inside: set[int] = set()  # nodes of trees that are made of others as a whole
    for _, node in zeros:
        name, other = named.get(alike.kind(node), ("", node))
        if id(node) in inside or other is node:
            continue
        if others.setdefault(name, other) is other:
            made[id(node)] = f"jax.tree.map(np.zeros_like, {name})"
            made[id(other)] = name
            inside.update(id(inner) for _, inner in _nodes("", node))
    return others, made


def _nodes(key: str, tree: Tree) -> Iterator[tuple[str, Node]]:
    """Yield the outermost nodes first, with the field or key that holds them."""
    if isinstance(tree, Node):
        yield key, tree
        for name, child in zip(tree.keys, tree.children):
            yield from _nodes(str(name), child)


def _is_large(tree: Node) -> bool:
    return sum(1 for _ in leaves(tree)) >= MIN_LEAVES


def _is_zero(leaf: Input) -> bool:
    if not leaf.is_drawn() or jaxapi.is_key(leaf.aval) or leaf.aval.weak_type:
        return False
    return not np.any(np.asarray(leaf.value))
