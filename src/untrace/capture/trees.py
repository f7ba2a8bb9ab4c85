"""Pytrees as descriptions: what kind of node, how its children are reached.

A `Tree` says enough to write the access to every leaf (`params["w"]`, `state.mu`), to
write the expression that builds the tree again, and to build it from the classes of a
generated module. Node classes that cannot be imported, or rebuilt by a plain call, are
described as a `replaced` NamedTuple with the same children in the same order.
"""

from __future__ import annotations

import builtins
import collections
import collections.abc
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.capture.attributes import attribute_names
from untrace.capture.dict_keys import enums_of, is_plain_key, spelled
from untrace.capture.inputs import has_state, is_module
from untrace.capture.static_fields import static_fields
from untrace.recovery.record import is_library_class
from untrace.syntax.importable import is_importable
from untrace.syntax.names import identifier, is_name
from untrace.syntax.steps import Attribute, Item, Path, Step


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf, by its position among all leaves of the signature."""

    index: int


@dataclass(frozen=True, slots=True)
class Node:
    """An inner node.

    Attributes:
      kind: "tuple", "list", "dict", "none", "number" or "constant" (the only key; a
        constant is a text in a result), "fields" (called
        with keyword arguments), "items" (called with a dict), "sparse" (a matrix of
        JAX, called with a tuple and its settings) or "replaced" (a NamedTuple that the
        generated file defines).
      cls: The class to call, where it is not a builtin.
      keys: Dict keys or field names, one for each child.
      children: The subtrees.
      settings: Keyword arguments of the call that hold no arrays, such as the static
        fields of a dataclass; those of "items" are passed by position, before the dict.
    """

    kind: str
    cls: Any
    keys: tuple[Any, ...]
    children: tuple[Tree, ...]
    settings: tuple[tuple[str, Any], ...] = ()


Tree = Leaf | Node

MAPPINGS = (collections.OrderedDict, collections.defaultdict)
"""Mappings that every file can import, which are no other tree than a dict for nothing."""


def describe(value: Any, first: int = 0) -> Tree:
    """Describe a pytree whose leaves are numbered from `first`."""
    counter = iter(range(first, first + len(jax.tree.leaves(value))))
    return _describe(value, counter)


def describe_each(values: Iterable[Any]) -> list[Tree]:
    """Describe pytrees whose leaves are numbered on, from one to the next."""
    found: list[Tree] = []
    first = 0
    for value in values:
        found.append(describe(value, first))
        first += len(jax.tree.leaves(value))
    return found


def _describe(value: Any, counter: Iterator[int]) -> Tree:
    if value is None:
        return Node("none", None, (), ())
    flat, treedef = jax.tree_util.tree_flatten_with_path(
        value, is_leaf=lambda child: child is not value
    )
    if treedef.num_nodes == treedef.num_leaves == 1:
        return Leaf(next(counter))
    parts = [child for _, child in flat]
    children = tuple(_describe(child, counter) for child in parts)
    return _node(value, [path[0] for path, _ in flat], parts, children)


def _node(
    value: Any, keys: list[Any], parts: list[Any], children: tuple[Tree, ...]
) -> Node:
    cls = type(value)
    if cls in (tuple, list):
        return Node(cls.__name__, None, tuple(range(len(parts))), children)
    names = [getattr(key, "key", None) for key in keys]
    if cls is dict and all(is_plain_key(name) for name in names):
        return Node("dict", None, tuple(names), children)
    if cls in MAPPINGS and all(map(is_plain_key, names)):
        return _mapping(value, names, children)
    fields = _field_names(value, keys)
    settings = jaxapi.sparse_settings(value)
    if settings is not None:
        return Node("sparse", cls, tuple(fields), children, tuple(settings.items()))
    # The constructor of another class may convert what is not of the classes it knows.
    takes_any = issubclass(cls, tuple) or not any(map(_holds_replaced, children))
    if (
        takes_any
        and is_importable(cls)
        and (node := _rebuilt(value, cls, fields, names, parts, children))
    ):
        return node
    return Node("replaced", cls, tuple(fields), children)


def _mapping(value: Any, keys: Sequence[Any], children: tuple[Tree, ...]) -> Node:
    """Describe a mapping as one of `collections`, if it is one that can be made again."""
    cls = type(value)
    is_default = cls is collections.defaultdict
    factory = value.default_factory if is_default else None
    known = [None, *vars(builtins).values()]
    is_known = any(factory is one for one in known)
    if cls not in MAPPINGS or not is_known:
        return Node("dict", None, tuple(keys), children)
    settings = (("default_factory", factory),) if is_default else ()
    return Node("items", cls, tuple(keys), children, settings)


def _holds_replaced(tree: Tree) -> bool:
    return next(replaced_nodes(tree), None) is not None


def _rebuilt(
    value: Any,
    cls: Any,
    fields: list[str],
    names: list[Any],
    parts: list[Any],
    children: tuple[Tree, ...],
) -> Node | None:
    """Describe an importable class by the call that makes an equal tree, if any."""
    wanted = jax.tree.structure(value)
    given = dict(zip(fields, parts))
    static = static_fields(value, fields)
    attempts = [("fields", fields, dict[str, Any](), lambda: cls(**given))]
    if all(is_plain_key(name) for name in names):
        attempts.append(("items", names, {}, lambda: cls(dict(zip(names, parts)))))
    if static:
        attempts.append(("fields", fields, static, lambda: cls(**given, **static)))
    for kind, keys, settings, build in attempts:
        try:
            made = build()
            same = jax.tree.structure(made) == wanted and all(
                a is b for a, b in zip(jax.tree.leaves(made), jax.tree.leaves(value))
            )
        except Exception:  # foreign constructors may raise anything
            continue
        if same:
            return Node(kind, cls, tuple(keys), children, tuple(settings.items()))
    return None


def _field_names(value: Any, keys: Sequence[Any]) -> list[str]:
    """Return legal, unique field names for the children of a node."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        own = list(getattr(value, "_fields"))  # noqa: B009  (untyped)
        if len(own) == len(keys) and _are_fields(own):
            return own
    held = jaxapi.held_by_function(value)
    if held is not None and len(held) == len(keys):
        return list(held)
    has_numbers = any(isinstance(k, jax.tree_util.FlattenedIndexKey) for k in keys)
    known = attribute_names(value) if has_numbers else [""] * len(keys)
    return legal_fields(
        held_by
        or getattr(key, "name", None)
        or _said(getattr(key, "key", getattr(key, "idx", key)))
        for key, held_by in zip(keys, known)
    )


def _said(key: Any) -> str:
    """Return what tells a key: the name of a class, or else its text."""
    return key.__name__ if isinstance(key, type) else str(key)


def _are_fields(names: list[Any]) -> bool:
    """Whether a NamedTuple may have fields of these names."""
    return (
        all(map(is_name, names))
        and not any(name.startswith("_") for name in names)
        and len(set(names)) == len(names)
    )


def legal_fields(texts: Iterable[str]) -> list[str]:
    """Return names for the fields of a NamedTuple, each another."""
    given = tuple(texts)
    if all(type(text) is str for text in given):
        return list(_legal_fields(given))
    return list(_made_legal(given))


def _made_legal(texts: tuple[str, ...]) -> tuple[str, ...]:
    names: list[str] = []
    for text in texts:
        name = identifier(identifier(text, "field").lstrip("_"), "field")
        while name in names:
            name += "_"
        names.append(name)
    return tuple(names)


# Objects of one class are met again and again.
_legal_fields = functools.lru_cache(maxsize=1024)(_made_legal)


def plain(
    value: Any,
    is_array: Callable[[Any], bool],
    found: list[Any],
    keep_types: bool,
    keep_numbers: bool = True,
    of_leaves: Callable[[Sequence[Any]], Tree | None] = lambda leaves: None,
    in_modules: bool | Set[type] = False,
    apart: dict[int, Apart] | None = None,
) -> Tree:
    """Describe a value by its arrays alone, with plain containers.

    Arrays are appended to `found`. What is no array and holds none becomes None, and a
    tuple `()`; children of classes that are None are left out, so that a tree keeps its
    description when another library has split its arrays from the rest. Mappings become
    dicts, and modules of flax.nnx, too, objects of libraries that only wrap what they
    hold that, and other classes NamedTuples, unless types are to be kept. Numbers stay
    in classes, `State(0, x)`, unless they are not to be kept; those in modules of
    equinox, which splits them from arrays, do so only `in_modules`: all, or those of
    some classes. `of_leaves` may know a tree, numbered from 0, for a flat list of its
    leaves. Objects that do not change are taken apart once for all calls with the same
    `apart`.
    """
    known = {} if apart is None else apart
    made = _Plain(
        is_array, found, keep_types, keep_numbers, of_leaves, in_modules, known
    )
    return made.tree(value, False)


@dataclass(slots=True)
class Apart:
    """An object that was taken apart.

    Attributes:
      value: The object, which is kept alive so that its `id` stays its own.
      parts: Its children; None if it cannot be taken apart.
      entries: How each is reached.
      fields: What they are called, once somebody has asked.
    """

    value: Any
    parts: list[Any] | None
    entries: list[Any]
    fields: list[Any] | None = None

    def names(self) -> list[Any]:
        """Name the fields."""
        if self.fields is None:
            fields: list[Any] = _field_names(self.value, self.entries)
            if has_state(self.value):  # described as its state is, so that both are one
                pairs = zip(self.entries, fields)
                fields = [getattr(e, "idx", field) for e, field in pairs]
            self.fields = fields
        return self.fields


def _take_apart(value: Any) -> Apart:
    try:
        flat, _ = jax.tree_util.tree_flatten_with_path(
            value, is_leaf=lambda child: child is not value
        )
    except Exception:  # such as that of a state of equinox that has been used up
        return Apart(value, None, [])
    return Apart(value, [part for _, part in flat], [path[0] for path, _ in flat])


@dataclass(frozen=True, slots=True)
class _Plain:
    """How `plain` describes values."""

    is_array: Callable[[Any], bool]
    found: list[Any]
    keep_types: bool
    keep_numbers: bool
    of_leaves: Callable[[Sequence[Any]], Tree | None]
    in_modules: bool | Set[type]
    apart: dict[int, Apart]

    def tree(self, value: Any, in_class: bool) -> Tree:
        """Describe a value; numbers only in classes."""
        if self.is_array(value):
            self.found.append(value)
            return Leaf(len(self.found) - 1)
        kind = type(value)
        if kind in (tuple, list):
            start = len(self.found)
            children = tuple([self.tree(part, in_class) for part in value])
            whole = self._of_flat(children, start)
            if whole is not None:
                return whole
            return Node(kind.__name__, None, tuple(range(len(children))), children)
        if kind is dict and all(is_plain_key(key) for key in value):
            keys = tuple(_sorted_keys(value))
            children = tuple([self.tree(value[key], in_class) for key in keys])
            return Node("dict", None, keys, children)
        if _is_node(kind, value):
            return self._of_class(value, kind)
        if in_class and isinstance(value, _NUMBERS):
            return Node("number", None, (value,), ())
        return Node("none", None, (), ())

    def _of_class(self, value: Any, kind: Any) -> Tree:
        known = self.apart.get(id(value))
        if known is None:
            known = self.apart[id(value)] = _take_apart(value)
        parts, entries = known.parts, known.entries
        if parts is None:
            return Node("none", None, (), ())
        in_class = self.keep_numbers and (self._is_whole(kind) or not is_module(value))
        start = len(self.found)
        children = tuple([self.tree(part, in_class) for part in parts])
        keys = [getattr(entry, "key", None) for entry in entries]
        if isinstance(value, collections.abc.Mapping) and all(map(is_plain_key, keys)):
            return _mapping(value, keys, children)
        is_sparse = jaxapi.sparse_settings(value) is not None
        if is_sparse or (self.keep_types and is_importable(kind)):
            del self.found[start:]
            node = _node(value, entries, parts, children)
            for part in parts:
                self.tree(part, in_class)
            return node
        named = zip(known.names(), children)
        pairs = [(field, child) for field, child in named if not _is_nothing(child)]
        keys = [field for field, _ in pairs]
        if pairs and has_state(value) and _sorted_keys(dict.fromkeys(keys)) == keys:
            return Node("dict", None, tuple(keys), tuple(c for _, c in pairs))
        if not pairs:
            return Node("tuple" if isinstance(value, tuple) else "none", None, (), ())
        if len(pairs) == 1 and not isinstance(value, tuple):
            held = _unboxed(*pairs[0])
            if held is not None and is_library_class(kind):
                return held
        return Node("replaced", kind, tuple(keys), tuple(c for _, c in pairs))

    def _is_whole(self, kind: type) -> bool:
        """Whether the numbers of a module are kept."""
        modules = self.in_modules
        return modules if isinstance(modules, bool) else kind in modules

    def _of_flat(self, children: tuple[Tree, ...], start: int) -> Tree | None:
        """Return the tree that a flat list holds the leaves of, if that is known."""
        if start == len(self.found) or not all(
            isinstance(child, Leaf) or child.kind == "none" for child in children
        ):
            return None
        whole = self.of_leaves(self.found[start:])
        return None if whole is None else numbered(whole, start)


def arrays(value: Any, is_array: Callable[[Any], bool]) -> Iterator[Any]:
    """Yield the arrays of a value in the order in which `plain` finds them."""
    if is_array(value):
        yield value
        return
    kind = type(value)
    if kind in (tuple, list):
        parts = value
    elif kind is dict and all(map(is_plain_key, value)):
        parts = [value[key] for key in _sorted_keys(value)]
    elif value is None or kind in _SCALARS or not _is_registered(kind, value):
        return
    else:
        parts = _parts(value)
    for part in parts:
        yield from arrays(part, is_array)


def _parts(value: Any) -> list[Any]:
    """List the children of an object; none of one that cannot be taken apart."""
    try:
        return jax.tree.leaves(value, is_leaf=lambda child: child is not value)
    except Exception:  # such as that of a state of equinox that has been used up
        return []


def members(value: Any, is_array: Callable[[Any], bool]) -> list[tuple[Step, Any]]:
    """List the parts of a tuple, a dict, or an object that a NamedTuple stands for.

    Returns:
      The step to each part, such as `[0]` or `.mu`, and the part; nothing for what is
      none of these.
    """
    if type(value) is tuple:
        return [(Item(i), part) for i, part in enumerate(value)]
    if type(value) is dict and all(map(is_plain_key, value)):
        return [(Item(key), part) for key, part in value.items()]
    tree = plain(value, is_array, [], keep_types=False)
    if isinstance(tree, Leaf) or tree.kind != "replaced":
        return []
    flat, _ = jax.tree_util.tree_flatten_with_path(
        value, is_leaf=lambda child: child is not value
    )
    names = _field_names(value, [path[0] for path, _ in flat])
    return [(Attribute(n), part) for n, (_, part) in zip(names, flat) if n in tree.keys]


def numbered(tree: Tree, first: int) -> Tree:
    """Number the leaves of a tree from `first` instead of 0."""
    if isinstance(tree, Leaf):
        return Leaf(tree.index + first)
    return replace(tree, children=tuple(numbered(c, first) for c in tree.children))


_SCALARS = (bool, int, float, complex, str, bytes)
_NUMBERS = (bool, int, float, complex, np.generic)


def _is_registered(kind: type, value: Any) -> bool:
    known = _REGISTERED.get(kind)
    if known is None:
        known = not jax.tree_util.all_leaves([value])
        if len(_REGISTERED) >= _MAX_KINDS:  # classes that are made anew in every run
            _REGISTERED.clear()
        _REGISTERED[kind] = known
    return known


def _is_node(kind: type, value: Any) -> bool:
    """Whether a value is taken apart; `isinstance` asks objects for their class."""
    known = _NODES.get(kind)
    if known is None:
        is_leaf = value is None or isinstance(value, (*_SCALARS, *_NUMBERS))
        known = not is_leaf and _is_registered(kind, value)
        if len(_NODES) >= _MAX_KINDS:
            _NODES.clear()
        _NODES[kind] = known
    return known


_REGISTERED: dict[type, bool] = {}
_NODES: dict[type, bool] = {}
_MAX_KINDS = 4096


def _is_nothing(tree: Tree) -> bool:
    return isinstance(tree, Node) and tree.kind == "none"


def _unboxed(field: str, child: Tree) -> Tree | None:
    """Return what a library's object holds, if it only wraps one array or one tree.

    A number may be an array where another function takes it.
    """
    if field == "value" and (isinstance(child, Leaf) or child.kind == "number"):
        return child
    if field == "states" and isinstance(child, Node) and child.kind == "tuple":
        return child.children[0] if len(child.children) == 1 else None
    return None


def _sorted_keys(value: dict[Any, Any]) -> list[Any]:
    """Sort the keys of a dict as `jax.tree.flatten` does."""
    try:
        return sorted(value)
    except TypeError:  # keys that do not compare keep their order
        return list(value)


def step_to(tree: Node, key: Any) -> Step:
    """Return the step to a child: `.mu`, `["w"]` or `[0]`."""
    has_fields = tree.kind in ("fields", "sparse") and not (
        inspect.isclass(tree.cls) and issubclass(tree.cls, collections.abc.Mapping)
    )
    return Attribute(key) if has_fields or tree.kind == "replaced" else Item(key)


def part_at(tree: Tree, path: Path) -> Tree | None:
    """Return the part of a tree that a path leads to; None if there is none."""
    for step in path:
        parts = [] if isinstance(tree, Leaf) else zip(tree.keys, tree.children)
        found = [child for key, child in parts if step_to(tree, key) == step]
        if not found:
            return None
        tree = found[0]
    return tree


def leaf_paths(tree: Tree, path: Path = ()) -> Iterator[tuple[int, Path]]:
    """Yield the index of each leaf, and the path to it."""
    if isinstance(tree, Leaf):
        yield tree.index, path
        return
    for key, child in zip(tree.keys, tree.children):
        yield from leaf_paths(child, (*path, step_to(tree, key)))


def accessors(tree: Tree, root: str) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Yield each leaf's index, the expression that reaches it, and its path's words."""
    for index, path in leaf_paths(tree):
        yield index, root + spelled(path), tuple([step.word for step in path])


def leaves(tree: Tree) -> Iterator[int]:
    """Yield the indices of the leaves, in order."""
    if isinstance(tree, Leaf):
        yield tree.index
        return
    for child in tree.children:
        yield from leaves(child)


def holds_text(tree: Tree) -> bool:
    """Whether a tree holds what is no array, which `jax.jit` does not return."""
    is_node = isinstance(tree, Node)
    return is_node and (tree.kind == "constant" or any(map(holds_text, tree.children)))


def n_numbers(tree: Tree) -> int:
    """Count the numbers that a description keeps."""
    if isinstance(tree, Leaf):
        return 0
    return sum(map(n_numbers, tree.children)) + (tree.kind == "number")


def is_builtin(tree: Tree) -> bool:
    """Whether a tree is made of Python's own containers alone."""
    is_leaf = isinstance(tree, Leaf)
    return is_leaf or (tree.kind in _BUILTIN and all(map(is_builtin, tree.children)))


_BUILTIN = ("dict", "list", "none", "number", "tuple")


def build(tree: Tree, values: Sequence[Any], classes: dict[Any, Any]) -> Any:
    """Build the tree of `values`, with `classes` in place of replaced ones."""
    if isinstance(tree, Leaf):
        return values[tree.index]
    parts = [build(child, values, classes) for child in tree.children]
    if tree.kind == "none":
        return None
    if tree.kind == "number":
        return tree.keys[0]
    if tree.kind == "tuple":
        return tuple(parts)
    if tree.kind == "list":
        return parts
    if tree.kind == "dict":
        return dict(zip(tree.keys, parts))
    if tree.kind == "items":
        given = [value for _, value in tree.settings]
        return tree.cls(*given, dict(zip(tree.keys, parts)))
    if tree.kind == "fields":
        return tree.cls(**dict(zip(tree.keys, parts)), **dict(tree.settings))
    if tree.kind == "sparse":  # the class itself would want arrays
        return tree.cls.tree_unflatten(dict(tree.settings), parts)
    cls = classes[replaced_key(tree)]
    if set(tree.keys) <= set(cls._fields):  # it may have more, which are None
        return cls(**dict(zip(tree.keys, parts)))
    return cls(*parts)  # in an anonymous file they have other names


def shown_settings(node: Node) -> list[tuple[str, Any]]:
    """List the settings of a sparse matrix that are not the default, False."""
    return [(name, value) for name, value in node.settings if value is not False]


def replaced_key(node: Node) -> Any:
    """Return what distinguishes the NamedTuples that a generated file defines."""
    return (node.cls, node.keys)


def enums(tree: Tree) -> Iterator[type]:
    """Yield the enums whose members are keys of dicts."""
    if isinstance(tree, Node):
        if tree.kind in ("dict", "items"):
            for key in tree.keys:
                yield from enums_of(key)
        for child in tree.children:
            yield from enums(child)


def replaced_nodes(tree: Tree) -> Iterator[Node]:
    """Yield the nodes whose class the generated file must define."""
    if isinstance(tree, Node):
        if tree.kind == "replaced":
            yield tree
        for child in tree.children:
            yield from replaced_nodes(child)
