"""Which trees libraries take apart before they call a transformation.

flax.nnx passes the leaves of a module as a list to `jax.jit`, equinox those of all
arguments as tuples, and they put the trees together inside. The leaves are in order, so
the trees may be passed as they are. Inside, and in the result, the lists are described as
the trees that they stand for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from untrace import jaxapi
from untrace.capture.trees import (
    Leaf,
    Node,
    Tree,
    build,
    is_builtin,
    leaves,
    numbered,
    plain,
)
from untrace.lifting.recorded.naming.values import arrays_in, is_array, type_of
from untrace.recovery.functions import starred
from untrace.recovery.record import Body, Call, is_library

Known = tuple[tuple[int, ...], Tree, str]
"""The identities of the leaves of a tree, the tree and its name."""


class Flat(NamedTuple):
    """What a flat list of leaves stands for.

    Attributes:
      name: Its name, or "".
      names: If it is several trees, one behind the other, the name of each, or "".
    """

    tree: Tree
    name: str
    names: tuple[str, ...] = ()


class Shapes:
    """The trees that flat lists of leaves stand for, by the identity of the leaves.

    Attributes:
      state: What is known, as a number: the same whenever a program is written again.
    """

    def __init__(self) -> None:
        self.state = 0
        self._named: dict[int, list[Known]] = {}
        self._flat: dict[tuple[int, ...], Flat] = {}

    def add(self, tree: Tree, leaves: Sequence[Any], name: str) -> None:
        """Take note of a tree that has a name.

        One that holds nothing but a list of leaves has the leaves of that list, which
        stands for itself. So does that of what a function made by JAX holds.
        """
        if isinstance(tree, Leaf) or tree.cls in jaxapi.FUNCTION_RESULTS:
            return
        if leaves and not _is_list_in_another(tree):
            ids = _ids(leaves)
            self._named.setdefault(ids[0], []).append((ids, tree, name))

    def tree(self, leaves: Sequence[Any]) -> Tree | None:
        """Return the tree that a flat list of leaves stands for, if that is known."""
        known = self._flat.get(_ids(leaves)) if self._flat else None
        return known.tree if known is not None else None

    def knows(self, value: Sequence[Any]) -> bool:
        """Whether a list or tuple is a flat list that stands for trees."""
        return bool(self._flat) and self.tree(list(filter(is_array, value))) is not None

    def name(self, value: Any) -> str:
        """Return the name of the tree that a flat list stands for, or ""."""
        known = self._flat.get(_ids(arrays_in(value)))
        return known.name if known is not None else ""

    def parts(self, value: Sequence[Any]) -> list[Any]:
        """Return the leaves of each tree, if a flat list stands for several.

        Where that is one array, it is returned itself.
        """
        arrays = list(filter(is_array, value))
        known = self._flat.get(_ids(arrays))
        if known is None or not known.names or isinstance(known.tree, Leaf):
            return [value]
        found: list[Any] = []
        position = 0
        for child, name in zip(known.tree.children, known.names):
            if isinstance(child, Leaf):
                found.append(arrays[position])
                position += 1
                continue
            part = tuple(arrays[position : position + len(list(leaves(child)))])
            own = Flat(numbered(child, -position), name)
            self._flat.setdefault(_ids(part), own)
            found.append(part)
            position += len(part)
        return found

    def opened(self, value: Any) -> Any:
        """Return the trees that a flat list stands for, or the value as it is."""
        if type(value) not in (tuple, list):
            return value
        arrays = list(filter(is_array, value))
        tree = self.tree(arrays)
        if tree is None or not is_builtin(tree):
            return value
        return build(tree, arrays, {})

    def enter(self, item: Call, runs: Iterable[Body]) -> None:
        """Find out what the flat lists that a library's function is passed stand for.

        Lists that it returns with leaves of the same types stand for the same trees.
        """
        for body in runs:
            if self._named and is_library(body.code):
                self._enter(item, body)

    def _enter(self, item: Call, body: Body) -> None:
        passed = _lists_in([*item.args, *item.kwargs.values()])
        taken = _lists_in(_arguments(body))
        if list(map(_types, passed)) != list(map(_types, taken)):
            return
        waiting: list[tuple[Any, Flat]] = []
        for outside, inside in zip(passed, taken):
            # From another call with this run, or the result of a call of another.
            known = self._flat.get(_ids(inside)) or self._flat.get(_ids(outside))
            found = known or self._grouped(outside)
            if found is not None:
                waiting.append((_types(inside), found))
                self._note(found, outside, inside)
        for inside, outside in zip(_lists_in([body.result]), _lists_in([item.result])):
            types = _types(inside)
            pair = next((pair for pair in waiting if pair[0] == types), None)
            if pair is not None and types == _types(outside):
                waiting.remove(pair)
                self._note(pair[1], outside, inside)

    def _note(self, found: Flat, *lists: Sequence[Any]) -> None:
        for arrays in lists:
            self.state = hash((self.state, *_ids(arrays)))
            self._flat.setdefault(_ids(arrays), found)

    def _grouped(self, leaves: Sequence[Any]) -> Flat | None:
        """Return the tree or the trees that a flat list is made of, if it is of any."""
        ids = _ids(leaves)
        parts: list[Flat] = []
        position = 0
        while position < len(ids):
            known = self._at(ids[position:])
            tree = Leaf(0) if known is None else known[1]
            parts.append(Flat(numbered(tree, position), known[2] if known else ""))
            position += 1 if known is None else len(known[0])
        if len(parts) == 1 and isinstance(parts[0].tree, Node):
            return parts[0]
        if not any(isinstance(part.tree, Node) for part in parts):
            return None
        trees = tuple(part.tree for part in parts)
        names = tuple(part.name for part in parts)
        return Flat(Node("tuple", None, tuple(range(len(trees))), trees), "", names)

    def _at(self, ids: tuple[int, ...]) -> Known | None:
        """Return the largest known tree whose leaves come first."""
        named = self._named.get(ids[0], ())
        fitting = [known for known in named if ids[: len(known[0])] == known[0]]
        return max(fitting, key=lambda known: len(known[0]), default=None)


def _arguments(body: Body) -> Iterator[Any]:
    """Yield what a function took, the members of starred parameters one by one."""
    stars = starred(body.code)
    for name, value in body.parameters.items():
        if name in stars:
            yield from value.values() if isinstance(value, dict) else value
        else:
            yield value


def _lists_in(values: Iterable[Any]) -> list[list[Any]]:
    """Return the flat lists and tuples of leaves in some values, in order."""
    lists: list[list[Any]] = []
    for value in values:
        plain(
            value, is_array, [], False, of_leaves=lambda leaves: lists.append([*leaves])
        )
    return lists


def _is_list_in_another(tree: Node) -> bool:
    """Whether all that a tree has is a part that is a flat list of its leaves."""
    node: Tree = tree
    while isinstance(node, Node) and len(node.children) == 1:
        (node,) = node.children
    if node is tree or not isinstance(node, Node):
        return False
    is_flat = all(isinstance(child, Leaf) for child in node.children)
    return node.kind in ("tuple", "list") and is_flat


def _ids(leaves: Sequence[Any]) -> tuple[int, ...]:
    return tuple(map(id, leaves))


def _types(leaves: Sequence[Any]) -> list[Any]:
    avals = [type_of(leaf) for leaf in leaves]
    return [(aval.shape, aval.dtype) for aval in avals]
