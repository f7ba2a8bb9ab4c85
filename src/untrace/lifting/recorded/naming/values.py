"""Which names hold which arrays: tracers are known by identity, containers by theirs.

A container is found again, whoever built it, if it holds the same arrays in the same
places: `params["Dense_0"]` and `opt_state[0].mu` are names of sub-trees.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.capture.trees import Leaf, Node, Tree, arrays, step_to
from untrace.lifting.recorded.functions.fields import by_length
from untrace.lifting.recorded.terms import Name
from untrace.recovery.record import is_library_class
from untrace.syntax.steps import Item, Path, Step, ends_with

Found = tuple[Name, Path]


_PLAIN = (bool, int, float, complex, str, bytes, type(None), type, np.dtype)


def is_array(value: Any) -> bool:
    """Whether a value is an array, or stands for one."""
    kind = type(value)
    known = _KINDS.get(kind)
    if known is None:
        if len(_KINDS) >= _MAX_KINDS:  # classes that are made anew in every run
            _KINDS.clear()
        known = _KINDS[kind] = isinstance(value, _ARRAYS) or jaxapi.is_ref(value)
    return known


def is_plain(value: Any) -> bool:
    """Whether a value is a scalar, a string, a type or None."""
    return isinstance(value, _PLAIN)


def type_of(value: Any) -> Any:
    """Return the type of an array, or of the tangent that is symbolically zero."""
    is_zero = isinstance(value, jax.custom_derivatives.SymbolicZero)
    return value.aval if is_zero else jax.typeof(value)


def arrays_in(value: Any) -> list[Any]:
    """List the arrays in a value."""
    return list(arrays(value, is_array))


def has_array(value: Any) -> bool:
    """Whether a value is an array or holds one."""
    return any(True for _ in arrays(value, is_array))


def is_made_of_arrays(value: Any) -> bool:
    """Whether a value is arrays in tuples, lists, dicts and the user's objects."""
    if value is None or is_array(value):
        return True
    if isinstance(value, (tuple, list)):
        return all(map(is_made_of_arrays, value))
    if type(value) is dict:
        return all(map(is_made_of_arrays, value.values()))
    if not dataclasses.is_dataclass(value) or is_library_class(type(value)):
        return False
    held = [getattr(value, one.name, value) for one in dataclasses.fields(value)]
    is_made = all(one is not value and is_made_of_arrays(one) for one in held)
    return is_made and any(one is not None for one in held)  # else it says what to do


def hides_arrays(value: Any) -> bool:
    """Whether a value is an object of a class that JAX does not know."""
    if value is None or is_array(value) or isinstance(value, _KNOWN):
        return False
    return not callable(value) and jax.tree_util.all_leaves([value])


_KNOWN = (bool, int, float, complex, str, bytes, tuple, np.generic, np.dtype)


_ARRAYS = (
    jaxapi.Tracer,
    jax.Array,
    np.ndarray,
    jax.custom_derivatives.SymbolicZero,  # stands for the tangent of one
)
_KINDS: dict[type, bool] = {}
_MAX_KINDS = 4096


class Values:
    """The names of arrays and containers in one function."""

    __slots__ = ("_alive", "_known", "tree")

    def __init__(self, describe: Callable[[Any], tuple[Tree, list[Any]]]) -> None:
        self._known: dict[Any, Found] = {}
        self._alive: list[Any] = []
        self.tree = describe

    def define(
        self,
        value: Any,
        name: Name,
        path: Path = (),
        instead: Mapping[int, Any] = MappingProxyType({}),
    ) -> None:
        """Let `name` (and `path` from there) stand for a value, and for its parts.

        Arrays may stand `instead` of those that it holds, by the `id` of these.
        """
        tree, arrays = self.tree(value)
        arrays = [instead.get(id(array), array) for array in arrays]
        self._alive.append(arrays)
        self._define(tree, arrays, name, path, {})
        if not arrays and callable(value):
            self._alive.append(value)
            self._known[id(value)] = name, path
        self._define_functions(value, name, path)

    def _define_functions(self, value: Any, name: Name, path: Path) -> None:
        """Let the name stand for functions that JAX made: those of `jax.linearize`, …"""
        if is_array(value):  # a tracer raises where it is asked for what it has not
            return
        if type(value) in (tuple, list):
            for index, item in enumerate(value):
                self._define_functions(item, name, (*path, Item(index)))
        elif type(value) is dict:
            for key, item in value.items():
                self._define_functions(item, name, (*path, Item(key)))
        elif (made := jaxapi.converted(value)) is not None:
            self._alive.append(value)
            self._known[id(made)] = self._known[id(value)] = name, path
        elif isinstance(value, jax.tree_util.Partial):
            self._known[id(jaxapi.plain_map(value))] = name, path
            self._known.setdefault(self.key(value), (name, path))

    def _define(
        self,
        tree: Tree,
        arrays: list[Any],
        name: Name,
        path: Path,
        keys: dict[int, Any],
        is_inside: bool = False,
    ) -> None:
        """Let a name stand for the parts of a tree; `is_inside` what a function holds.

        `keys` are those of the parts, by their `id`: that of a tree is made of theirs.
        """
        if isinstance(tree, Leaf):
            key = id(arrays[tree.index])
            known, before = self._known.setdefault(key, (name, path))
            if is_inside:
                return
            # The latest of `state = state._replace(...)`, or what has no other name.
            is_later = bool(path) and (before == path or not known.is_given)
            if is_later or _is_nearer(name, path, known, before):
                self._known[key] = name, path
            return
        key = tree_key(tree, arrays, keys)
        if key is not None:
            known, before = self._known.setdefault(key, (name, path))
            if (path and before == path) or _is_nearer(name, path, known, before):
                self._known[key] = name, path
        is_inside |= tree.cls in jaxapi.FUNCTION_RESULTS
        for part, child in by_length(tree):
            inner = (*path, step_to(tree, part))
            self._define(child, arrays, name, inner, keys, is_inside)

    def add(self, key: Any, name: Name) -> None:
        """Let a name stand for what has a key."""
        self._known[key] = name, ()

    def forget(self, name: Name) -> None:
        """Take away all that a name stands for."""
        self._known = {k: v for k, v in self._known.items() if v[0] is not name}

    def forget_array(self, array: Any) -> None:
        """Let no name stand for an array."""
        self._known.pop(id(array), None)

    def part_of(self, name: Name, keys: Sequence[Any]) -> tuple[Any, Path] | None:
        """Return the key of a part of what a name holds, and the path that leads to it."""
        if name.held is None:
            return None
        tree, arrays = self.tree(name.held)
        path: list[Step] = []
        for key in keys:
            parts = (
                {} if isinstance(tree, Leaf) else dict(zip(tree.keys, tree.children))
            )
            if isinstance(tree, Leaf) or key not in parts:
                return None
            path.append(step_to(tree, key))
            tree = parts[key]
        return tree_key(tree, arrays), tuple(path)

    def names(self) -> list[Name]:
        """List the names that stand for anything."""
        return list({id(name): name for name, _ in self._known.values()}.values())

    def find(self, key: Any) -> Found | None:
        """Return where the array or container with a key is."""
        return self._known.get(key)

    def key(self, value: Any) -> Any:
        """Return what identifies an array or container; None if it holds no array."""
        if is_array(value):
            return id(value)
        tree, arrays = self.tree(value)
        if not arrays:
            return id(value) if callable(value) else None
        key = tree_key(tree, arrays)
        if isinstance(value, jax.tree_util.Partial):  # others may hold the same arrays
            return id(jaxapi.plain_map(value)), key
        return key


def _is_nearer(name: Name, path: Path, known: Name, before: Path) -> bool:
    """Whether a parameter is what another one holds as a part: `params`, `state.params`."""
    if path == before or not (name.is_parameter and known.is_parameter):
        return False
    return ends_with(before, path)


def tree_key(
    tree: Tree, arrays: Sequence[Any], known: dict[int, Any] | None = None
) -> Any:
    """Return what identifies a tree of arrays; None if it holds none.

    Those of its inner nodes are looked up in `known` and kept there, by their `id`.
    """
    if isinstance(tree, Leaf):
        return id(arrays[tree.index])
    if known is None:
        return _key_of_node(tree, arrays, None)
    if id(tree) not in known:
        known[id(tree)] = _key_of_node(tree, arrays, known)
    return known[id(tree)]


def _key_of_node(
    tree: Node, arrays: Sequence[Any], known: dict[int, Any] | None
) -> Any:
    parts = [
        (label, key)
        for label, child in zip(tree.keys, tree.children)
        if (key := tree_key(child, arrays, known)) is not None
    ]
    if not parts:
        return None
    numbers = [
        (label, repr(child.keys))
        for label, child in zip(tree.keys, tree.children)
        if isinstance(child, Node) and child.kind == "number"
    ]
    # A shorter tuple is another one, even if it only lacks what holds no array.
    length = [len(tree.keys)] if tree.kind in ("tuple", "list") else []
    return (tree.kind, tree.cls, tuple(parts), *length, *numbers, *tree.settings)
