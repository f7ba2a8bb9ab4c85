"""Find the NamedTuple that another one is made of: most of its fields are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from untrace.capture.trees import Node, Tree, access
from untrace.lifting.recorded.naming.values import tree_key
from untrace.lifting.recorded.terms import Name

if TYPE_CHECKING:
    from untrace.lifting.recorded.writer import Writer

MIN_SAME = 2


def like(tree: Tree, arrays: Sequence[Any], writer: Writer) -> Name | None:
    """Return the name of a NamedTuple with most of the fields of another one."""
    if not isinstance(tree, Node) or not _is_named_tuple(tree):
        return None
    names: Counter[Name] = Counter()
    for key, child in zip(tree.keys, tree.children):
        found = writer.values.find(tree_key(child, arrays))
        if found is not None and found[1] == access(tree, key):
            names[found[0]] += 1
    if not names:
        return None
    ((name, n_same),) = names.most_common(1)
    if n_same < MIN_SAME or name.held is None:
        return None
    known, _ = writer.values.tree(name.held)
    if not isinstance(known, Node) or known.cls is not tree.cls:
        return None
    if 2 * n_same <= max(len(tree.keys), len(known.keys)):
        return None
    class_name = writer.program.class_name
    is_alike = known.keys == tree.keys or class_name(known) == class_name(tree)
    return name if is_alike else None


def lost_fields(base: Name, tree: Node, writer: Writer) -> list[str]:
    """List the fields of a NamedTuple that another object of its class has not."""
    known, _ = writer.values.tree(base.held)
    assert isinstance(known, Node)
    return [key for key in known.keys if key not in tree.keys]


def is_field(
    base: Name,
    key: Any,
    child: Tree,
    tree: Node,
    arrays: Sequence[Any],
    writer: Writer,
) -> bool:
    """Tell whether a field of a NamedTuple is that of another one."""
    found = writer.values.find(tree_key(child, arrays))
    return found is not None and found == (base, access(tree, key))


def _is_named_tuple(tree: Node) -> bool:
    return tree.kind == "replaced" or (
        tree.kind == "fields" and issubclass(tree.cls, tuple)
    )
