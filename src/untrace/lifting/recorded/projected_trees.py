"""Write a tree of parts of what stands at the leaves of another.

A function that is mapped over a tree may return several arrays for a leaf. What takes them
apart, `jax.tree.map(lambda _, pair: pair[0], params, pairs)`, makes no equation: only
where the arrays are tells of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from untrace.capture.dict_keys import spelled
from untrace.capture.trees import Leaf, Node, Tree, leaf_paths, leaves, part_at, step_to
from untrace.lifting.recorded.building import call
from untrace.lifting.recorded.naming.values import Found, tree_key
from untrace.lifting.recorded.terms import Name, Term
from untrace.lifting.recorded.writer import Writer
from untrace.optional import gives, optional
from untrace.syntax.precedence import LAMBDA
from untrace.syntax.steps import Path, ends_with, leads_into, without_end

MIN_LEAVES = 4
_Parts = list[tuple[Path, Tree]]


@optional(gives(None))
def of_projected(tree: Tree, arrays: Sequence[Any], writer: Writer) -> Term | None:
    """Write a tree by one that has its parts, and one that has its form; else None."""
    if isinstance(tree, Leaf) or len(list(leaves(tree))) < MIN_LEAVES:
        return None
    for like, parts in _forms(tree, writer):
        origin = _origin(parts, arrays, writer)
        if origin is not None:
            (root, path), part = origin
            function = f"lambda _, item: item{spelled(part)}"
            trees = [writer.ref((like, ())), writer.reach((root, path), is_tree=True)]
            mapped = writer.program.home_term(("jax.tree", "map"))
            return call(mapped, [Term([function], LAMBDA), *trees])
    return None


def _forms(tree: Tree, writer: Writer) -> Iterator[tuple[Name, _Parts]]:
    """Yield variables whose leaves stand where a tree has parts, and these."""
    for name in writer.values.names():
        if name.held is None or name.folded is not None or name.alias is not None:
            continue
        form = writer.values.tree(name.held)[0]
        parts = list(_parts(form, tree))
        known = [(way, part) for way, part in parts if part is not None]
        if len(known) == len(parts) >= MIN_LEAVES:
            yield name, known


def _parts(
    form: Tree, tree: Tree, way: Path = ()
) -> Iterator[tuple[Path, Tree | None]]:
    """Yield what a tree has at the leaves of another; None where that goes on alone."""
    if isinstance(form, Leaf):
        yield way, tree
        return
    if not isinstance(tree, Node) or _kind(form) != _kind(tree):
        yield way, None
        return
    for key, one, other in zip(form.keys, form.children, tree.children):
        yield from _parts(one, other, (*way, step_to(form, key)))


def _kind(tree: Node) -> Any:
    return tree.kind, tree.cls, tuple(tree.keys), tree.settings


def _origin(
    parts: _Parts, arrays: Sequence[Any], writer: Writer
) -> tuple[Found, Path] | None:
    """Return the tree that has something at the leaves of another, and which part of it."""
    way, first = parts[0]
    for index, inner in leaf_paths(first):
        known = writer.locate(id(arrays[index]))
        if known is None or known[0].held is None:
            continue
        name, path = known
        outer = without_end(path, inner)
        starts = [n for n in range(len(outer)) if leads_into(outer[n:], way)]
        if not starts or not ends_with(path, inner):
            continue
        before, part = outer[: starts[0]], outer[starts[0] + len(way) :]
        if not part:
            continue
        tree, held = writer.values.tree(name.held)
        places = [(part_at(tree, (*before, *way, *part)), one) for way, one in parts]
        if all(
            place is not None and tree_key(place, held) == tree_key(one, arrays)
            for place, one in places
        ):
            return (name, before), part
    return None
