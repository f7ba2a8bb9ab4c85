"""How the values of a recording are described: as trees of their arrays.

A program is written many times, and a recording does not change, so a value is looked
at once; and again when more is known of what flat lists of leaves stand for.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

from untrace.capture.trees import Apart, Leaf, Tree, plain
from untrace.lifting.recorded.functions.fields import Field, without
from untrace.lifting.recorded.naming.shapes import Shapes
from untrace.lifting.recorded.naming.values import is_array

Described = tuple[Tree, list[Any]]
"""A tree whose leaves are numbered, and the arrays that these are."""

Known = dict[tuple[int, int], tuple[Any, Described]]
"""Values, which stay alive, and how they are described, by identity and what is known."""

ANY_STATE = -1
"""Whatever is known of flat lists."""


class Descriptions:
    """Describes the values of one program.

    Args:
      known: What is known from writing it before.
      shapes: What flat lists of leaves stand for.
      keep_types: Whether classes are kept.
      unread: Fields of stand-ins that are left out.
      numbered: Modules whose numbers are described, too.
    """

    def __init__(
        self,
        known: Known,
        shapes: Shapes,
        keep_types: bool,
        unread: Set[Field],
        numbered: Set[type],
    ) -> None:
        self._known = known
        self._shapes = shapes
        self._keep_types = keep_types
        self._unread = unread
        self._numbered = numbered
        self._apart: dict[int, Apart] = {}

    def __call__(self, value: Any) -> Described:
        """Describe a value and list its arrays."""
        if is_array(value):
            return Leaf(0), [value]
        found = self._known.get((id(value), ANY_STATE))
        found = found or self._known.get((id(value), self._shapes.state))
        tree, arrays = self._described(value) if found is None else found[1]
        return without(tree, self._unread), arrays

    def _described(self, value: Any) -> Described:
        arrays: list[Any] = []
        state = ANY_STATE  # of a flat list in it more may be known later

        def of_leaves(leaves: Sequence[Any]) -> Tree | None:
            nonlocal state
            state = self._shapes.state
            return self._shapes.tree(leaves)

        tree = plain(
            value,
            is_array,
            arrays,
            self._keep_types,
            of_leaves=of_leaves,
            in_modules=self._numbered,
            apart=self._apart,
        )
        self._known[id(value), state] = value, (tree, arrays)
        return tree, arrays
