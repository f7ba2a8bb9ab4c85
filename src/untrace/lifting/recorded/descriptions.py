"""How the values of a recording are described: as trees of their arrays.

A program is written many times, and a recording does not change, so a value is looked
at once; and again when more is known of what flat lists of leaves stand for.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from untrace.capture.trees import Leaf, Tree, plain
from untrace.lifting.recorded.functions.fields import Field, without
from untrace.lifting.recorded.naming.shapes import Shapes
from untrace.lifting.recorded.naming.values import is_array

Described = tuple[Tree, list[Any]]
"""A tree whose leaves are numbered, and the arrays that these are."""

Known = dict[tuple[int, int, int], tuple[Any, Described]]
"""Values, which stay alive, and how they are described, by identity and what is known."""


class Descriptions:
    """Describes the values of one program.

    Args:
      known: What is known from writing it before.
      shapes: What flat lists of leaves stand for.
      keep_types: Whether classes are kept.
      unread: Fields of stand-ins that are left out.
    """

    def __init__(
        self, known: Known, shapes: Shapes, keep_types: bool, unread: Set[Field]
    ) -> None:
        self._known = known
        self._shapes = shapes
        self._keep_types = keep_types
        self._unread = unread

    def __call__(self, value: Any) -> Described:
        """Describe a value and list its arrays."""
        if is_array(value):
            return Leaf(0), [value]
        key = id(value), self._shapes.state, len(self._unread)
        found = self._known.get(key)
        if found is None:
            arrays: list[Any] = []
            of_leaves = self._shapes.tree
            tree = plain(value, is_array, arrays, self._keep_types, of_leaves=of_leaves)
            found = self._known[key] = value, (tree, arrays)
        tree, arrays = found[1]
        return without(tree, self._unread), arrays
