"""Which trees libraries take apart before they call a transformation.

flax.nnx passes the leaves of a module as a list to `jax.jit`, and puts a module together
inside. The order is that of the leaves of the module, so the module may be passed as it
is. Inside, and for the result, the list is described as the tree that it stands for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from untrace.capture.trees import Node, Tree, plain
from untrace.lifting.recorded.values import arrays_in, is_array
from untrace.recovery.record import Body, Call, is_library


class Shapes:
    """The trees that lists of leaves stand for, by the identity of the leaves."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], tuple[Tree, str]] = {}

    def add(self, tree: Tree, leaves: Sequence[Any], name: str) -> None:
        """Take note of a tree that has a name."""
        if isinstance(tree, Node) and leaves:
            self._known.setdefault(_ids(leaves), (tree, name))

    def tree(self, leaves: Sequence[Any]) -> Tree | None:
        """Return the tree with these leaves, if there is one."""
        known = self._known.get(_ids(leaves))
        return known[0] if known is not None else None

    def name(self, value: Any) -> str:
        """Return the name of the tree with the leaves of a value, or ""."""
        return self._known.get(_ids(arrays_in(value)), ("", ""))[1]

    def enter(self, item: Call) -> None:
        """Find out what the lists that a library's function is passed stand for.

        Lists that it returns with leaves of the same types stand for the same trees.
        """
        for body in item.bodies:
            if self._known and is_library(body.code):
                self._enter(item, body)

    def _enter(self, item: Call, body: Body) -> None:
        passed = lists_in((item.args, item.kwargs))
        trees = [self._known.get(_ids(leaves)) for leaves in passed]
        taken = lists_in(tuple(body.parameters.values()))
        if not any(trees) or list(map(_types, passed)) != list(map(_types, taken)):
            return
        waiting: list[tuple[Any, tuple[Tree, str]]] = []
        for known, leaves in zip(trees, taken):
            if known is not None:
                self._known.setdefault(_ids(leaves), known)
                waiting.append((_types(leaves), known))
        for inside, outside in zip(lists_in(body.result), lists_in(item.result)):
            types = _types(inside)
            found = next((pair for pair in waiting if pair[0] == types), None)
            if found is not None and types == _types(outside):
                waiting.remove(found)
                self._known.setdefault(_ids(inside), found[1])
                self._known.setdefault(_ids(outside), found[1])


def lists_in(value: Any) -> list[list[Any]]:
    """Return the flat lists of leaves that a library's objects wrap, in order."""
    lists: list[list[Any]] = []
    plain(value, is_array, [], False, of_leaves=lambda leaves: lists.append([*leaves]))
    return lists


def _ids(leaves: Sequence[Any]) -> tuple[int, ...]:
    return tuple(map(id, leaves))


def _types(leaves: Sequence[Any]) -> list[Any]:
    avals = [jax.typeof(leaf) for leaf in leaves]
    return [(aval.shape, aval.dtype) for aval in avals]
