"""Find the NamedTuple that another one is made of: most of its fields are the same.

It may be a part of what a name holds: `state.save_state._replace(ts=ts)`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from untrace.capture.trees import Node, Tree, part_at, step_to
from untrace.lifting.recorded.naming.values import Found, tree_key
from untrace.lifting.recorded.terms import Name
from untrace.lifting.recorded.writer import Writer
from untrace.optional import gives, optional
from untrace.syntax.steps import Path, ends_with

MIN_SAME = 2


@optional(gives(None))
def like(tree: Tree, arrays: Sequence[Any], writer: Writer) -> Found | None:
    """Return where a NamedTuple is that has most of the fields of another one.

    Of a part of what a name holds, which would be long to write, half are enough.
    """
    if not isinstance(tree, Node) or not _is_named_tuple(tree):
        return None
    found: Counter[tuple[int, Path]] = Counter()
    names: dict[int, Name] = {}
    for key, child in zip(tree.keys, tree.children):
        known, ending = _seen(tree_key(child, arrays), writer), (step_to(tree, key),)
        if known is not None and ends_with(known[1], ending):
            names[id(known[0])] = known[0]
            found[id(known[0]), known[1][:-1]] += 1
    if not found:
        return None
    (((key, path), n_same),) = found.most_common(1)
    name = names[key]
    base = node_at(name, path, writer)
    if n_same < MIN_SAME or base is None or base.cls is not tree.cls:
        return None
    n_needed = max(len(tree.keys), len(base.keys)) + (not path)
    if 2 * n_same < n_needed:
        return None
    class_name = writer.program.class_name
    if base.keys != tree.keys and class_name(base) != class_name(tree):
        return None
    for key in [tree_key(child, arrays) for child in tree.children]:
        if _seen(key, writer) is not None:
            writer.find(key)  # which notes what is taken from around the function
    return name, path


def _seen(key: Any, writer: Writer) -> Found | None:
    """Return where a function sees what has a key: in itself or in one around it."""
    inner: Writer | None = writer
    while inner is not None:
        found = inner.values.find(key)
        if found is not None:
            return found
        inner = inner.parent
    return None


def lost_fields(base: Found, tree: Node, writer: Writer) -> list[str]:
    """List the fields of a NamedTuple that another object of its class has not."""
    known = node_at(*base, writer)
    assert known is not None
    return [key for key in known.keys if key not in tree.keys]


def is_field(
    base: Found,
    key: Any,
    child: Tree,
    tree: Node,
    arrays: Sequence[Any],
    writer: Writer,
) -> bool:
    """Whether a field of a NamedTuple is that of another one."""
    name, path = base
    found = _seen(tree_key(child, arrays), writer)
    return found is not None and found == (name, (*path, step_to(tree, key)))


def node_at(name: Name, path: Path, writer: Writer) -> Node | None:
    """Return the node that is there in what a name holds."""
    if name.held is None:
        return None
    tree = part_at(writer.values.tree(name.held)[0], path)
    return tree if isinstance(tree, Node) else None


def _is_named_tuple(tree: Node) -> bool:
    return tree.kind == "replaced" or (
        tree.kind == "fields" and issubclass(tree.cls, tuple)
    )
