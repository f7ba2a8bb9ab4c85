"""Trees whose leaves are passed on, or come back, one after the other.

Where a call takes all leaves of a tree in their order, they are written
`*jax.tree.leaves(tree)`. Where a tree like it is made of values that a call returned in
their order, it is written `jax.tree.unflatten(jax.tree.structure(tree), ...)`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import jax

from untrace.lifting.recorded.building import call, starred
from untrace.lifting.recorded.naming.paths import part_of
from untrace.lifting.recorded.naming.values import is_array
from untrace.lifting.recorded.terms import Group, Name, Part, Ref, Term
from untrace.lifting.recorded.writer import Writer
from untrace.optional import gives, optional
from untrace.syntax.steps import Path

MIN_LEAVES = 6
_ASKING = frozenset({"flatten", "leaves", "tree_flatten", "tree_leaves"})


def with_leaves(term: Term, writer: Writer) -> Term:
    """Write the leaves of whole trees, where they are next to each other, by one call."""
    known: dict[int, list[Path]] = {}

    def changed(group: Group) -> Sequence[Part]:
        position = 0
        while len(group.items) - position >= MIN_LEAVES:
            ref = group.items[position].ref
            paths = _leaf_paths(ref, known, writer) if ref is not None else []
            row = group.items[position : position + len(paths)]
            if ref is not None and paths and _is_row(row, ref.name, paths):
                module = writer.program.lifter.imports.module("jax")
                leaves = call(Term([f"{module}.tree.leaves"]), [Term([Ref(ref.name)])])
                group.items[position : position + len(paths)] = [starred(leaves)]
                ref.name.uses -= len(paths) - 1
            position += 1
        return [group]

    term.map_groups(changed)
    return term


@optional(gives(None))
def leaves_term(value: Sequence[Any], writer: Writer) -> Term | None:
    """Write a list as the leaves of a tree that has a name, if there is one.

    The user's function has to ask for leaves; it may have listed others by itself.
    """
    code = writer.draft.code
    if type(value) is not list or not all(map(is_array, value)):
        return None
    if len(value) < 2 or (code is not None and _ASKING.isdisjoint(code.co_names)):
        return None
    found = writer.find(id(value[0]))
    way = found[1] if found is not None else ()
    for n_steps in range(len(way)):
        assert found is not None
        path = way[:n_steps]
        tree = part_of(found[0].held, path)
        leaves = jax.tree.leaves(tree)
        is_all = len(leaves) == len(value) and all(map(operator.is_, leaves, value))
        if is_all and type(tree) not in (list, tuple):
            home = writer.program.home_term(("jax.tree", "leaves"))
            return call(home, [writer.ref((found[0], path))])
    return None


@optional(gives(None))
def structure_term(treedef: Any, writer: Writer) -> Term | None:
    """Write a structure as that of a tree of arrays that has a name, if there is one."""
    for name in writer.values.names():
        if name.held is None or is_array(name.held):
            continue
        leaves, found = jax.tree.flatten(name.held)
        tree, arrays = writer.values.tree(name.held)
        if found == treedef and len(arrays) == len(leaves):
            writer.program.rearranged.append(tree)
            return _structure_of(name, writer)
    return None


def _structure_of(name: Name, writer: Writer) -> Term:
    structure = writer.program.home_term(("jax.tree", "structure"))
    return call(structure, [writer.ref((name, ()))])


def put_into(structure: Term, leaves: Term, writer: Writer) -> Term:
    """Write a tree of a structure with other leaves."""
    unflatten = writer.program.home_term(("jax.tree", "unflatten"))
    return call(unflatten, [structure, leaves])


def _leaf_paths(part: Ref, known: dict[int, list[Path]], writer: Writer) -> list[Path]:
    """List how the leaves of what a name holds are reached; none if there are few."""
    name = part.name
    if id(name) not in known:
        known[id(name)] = []
        if name.held is not None:
            leaves = jax.tree.leaves(name.held)
            found = [writer.values.find(id(leaf)) for leaf in leaves]
            paths = [where[1] for where in found if where and where[0] is name]
            if MIN_LEAVES <= len(paths) == len(leaves):
                known[id(name)] = paths
    return known[id(name)]


def _is_row(row: Sequence[Term], name: Name, paths: Sequence[Path]) -> bool:
    """Whether items are all leaves of what a name holds."""
    refs = [item.ref for item in row]
    return len(row) == len(paths) and all(
        ref is not None and ref.name is name and ref.path == path
        for ref, path in zip(refs, paths)
    )
