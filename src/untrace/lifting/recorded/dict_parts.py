"""Write a large dict as a part of another one, or as several put together.

Libraries split the state of a model by kinds and put it together again. Written are
`without(model, "rngs")` and `merged(model, params)` instead of dicts with each entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from untrace.capture.trees import Leaf, Node, Tree, build, is_builtin
from untrace.lifting.recorded.building import call, dict_term, literal_term
from untrace.lifting.recorded.functions.likeness import node_at
from untrace.lifting.recorded.naming.values import Found, tree_key
from untrace.lifting.recorded.terms import Global, Name, Term
from untrace.lifting.recorded.tree import Statement
from untrace.lifting.recorded.writer import Writer
from untrace.optional import gives, optional
from untrace.recovery.instructions import listing_of
from untrace.syntax.steps import Item, Path, ends_with, without_end

MIN_ENTRIES = 3  # of a dict that is not written entry by entry
MIN_SHARED = 2  # entries that a part has to give
MAX_KEYS = 3  # whose entries are left out

Way = tuple[Any, ...]
"""The keys that lead to an entry of nested dicts."""
Entries = Mapping[Way, Any]
"""What identifies the entries of nested dicts."""


@dataclass(frozen=True, eq=False, slots=True)
class _Part:
    """A dict that has a name.

    Attributes:
      found: Where it is.
      dropped: The keys whose entries are left out.
      entries: What is left.
    """

    found: Found
    dropped: tuple[str, ...]
    entries: Entries


@optional(gives(None))
def of_dicts(
    tree: Node,
    arrays: Sequence[Any],
    writer: Writer,
    write: Callable[[Tree, Sequence[Any], Writer], Term],
) -> Term | None:
    """Write nested dicts by others that have names; None if that is not shorter.

    `write` writes what no other dict has.
    """
    options = writer.program.options
    if tree.kind != "dict" or options.keep_types or options.anonymous:
        return None
    n_written = _count(tree, arrays, writer)
    wanted = dict(_entries(tree, arrays))
    if n_written < MIN_ENTRIES:
        return None
    parts, rest = _chosen(wanted, list(_parts(wanted, writer)))
    left = _only(tree, rest)
    n_parts = sum(1 + bool(part.dropped) for part in parts)
    n_left = _count(left, arrays, writer) if rest else 0
    ways = [set(part.entries) for part in parts]
    is_flat = _replaces_whole_keys(wanted, [*ways, rest])
    is_part = len(parts) == 1 and not rest
    is_copied = writer.in_library or _copies_dicts(writer)
    is_plain = is_part or (is_flat and is_copied)
    n_wanted = 1 if is_plain else n_written / 2  # entries that are not written
    if not parts or n_written - n_parts - n_left < n_wanted:
        return None
    terms = [_part_term(part, tree, arrays, writer) for part in parts]
    if is_part:
        return terms[0]
    if is_flat:
        inner = [(k, write(child, arrays, writer)) for k, child in _items(left)]
        inner.sort(key=lambda entry: _last_made(entry[1], writer))
        return dict_term(inner, terms)
    if not rest:
        return _helper_call("merged", terms, writer)
    terms.append(write(left, arrays, writer))
    found = writer.locate(tree_key(left, arrays))
    more = _named_entries(found, writer).keys() - rest if found is not None else ()
    if not more:
        return _helper_call("merged", terms, writer)
    # What is written for the rest holds nothing in the places of the other parts.
    holes = {way for part in parts for way, key in part.entries.items() if key is None}
    is_filled = len(parts) == 1 and holes == rest and more == wanted.keys() - rest
    return _helper_call("filled", terms, writer) if is_filled else None


def _copies_dicts(writer: Writer) -> bool:
    """Whether the function that is written may make a dict of another one."""
    code = writer.draft.code
    return code is not None and listing_of(code).copies_dicts


def _last_made(term: Term, writer: Writer) -> int:
    """Return the number of the name of a term that the function makes last.

    Entries in the order in which they are made can hold what makes them.
    """
    made = [writer.owned.get(id(ref.name), 0) for ref in term.all_refs()]
    return max(made, default=0)


def _named_entries(found: Found, writer: Writer) -> Entries:
    """Return the entries of a dict that has a name."""
    name, path = found
    node = node_at(name, path, writer)
    if node is None:
        return {}
    return dict(_entries(node, writer.values.tree(name.held)[1]))


def _replaces_whole_keys(wanted: Entries, layers: Sequence[set[Way]]) -> bool:
    """Whether a dict is `{**first, **second}`: all under a key is of one of them."""
    holders: dict[Any, set[Way]] = {}
    for ways in layers:
        holders.update({way[0]: ways for way in ways})
    return all(way in holders[way[0]] for way in wanted)


def _chosen(wanted: Entries, parts: Sequence[_Part]) -> tuple[list[_Part], set[Way]]:
    """Choose what to put together, later parts above; return the entries that are left.

    At most the first part has entries that others replace.
    """
    rest = set(wanted)
    chosen: list[_Part] = []
    for part in parts:
        is_exact = all(wanted[way] == key for way, key in part.entries.items())
        if is_exact and len(rest & part.entries.keys()) >= MIN_SHARED:
            chosen.append(part)
            rest -= part.entries.keys()
    shared = [_shared(part, wanted) & rest for part in parts]
    most = max(shared, key=len, default=set[Way]())
    if len(most) >= MIN_SHARED:
        chosen.insert(0, parts[shared.index(most)])
        rest -= most
    return chosen, rest


def _shared(part: _Part, wanted: Entries) -> set[Way]:
    return {way for way, key in part.entries.items() if wanted[way] == key}


def _parts(wanted: Entries, writer: Writer) -> Iterator[_Part]:
    """Yield the dicts that have entries of another one in the same places."""
    found: Counter[tuple[int, Path]] = Counter()
    names: dict[int, Name] = {}
    for way, key in wanted.items():
        origin, ending = writer.locate(key), tuple(map(Item, way))
        if origin is not None and ends_with(origin[1], ending):
            names[id(origin[0])] = origin[0]
            found[id(origin[0]), without_end(origin[1], ending)] += 1
    for (key, path), n_shared in found.most_common():
        base = node_at(names[key], path, writer)
        if n_shared < MIN_SHARED or base is None or base.kind != "dict":
            continue
        held = dict(_entries(base, writer.values.tree(names[key].held)[1]))
        extra = [way for way in held if way not in wanted]
        kept = {way: held[way] for way in held if way in wanted}
        dropped = _keys_of(extra, kept)
        if dropped is not None and _EMPTY not in held.values():
            yield _Part((names[key], path), dropped, kept)


def _keys_of(extra: Collection[Way], kept: Collection[Way]) -> tuple[str, ...] | None:
    """Return the keys that lead to some entries and to no others; None if there are none."""
    others = {key for way in kept for key in way}
    rest, found = list(extra), list[str]()
    while rest:
        times = Counter(
            k for w in rest for k in w if type(k) is str and k not in others
        )
        if not times or len(found) == MAX_KEYS:
            return None
        found.append(
            max(reversed(times), key=times.__getitem__)
        )  # nearest to the entry
        rest = [way for way in rest if found[-1] not in way]
    order = list(dict.fromkeys(key for way in extra for key in way))
    return tuple(sorted(found, key=order.index))


def _part_term(part: _Part, tree: Node, arrays: Sequence[Any], writer: Writer) -> Term:
    """Write a part: its name, or what is left of that; this has a name from then on."""
    held = writer.reach(part.found, is_tree=True)
    if not part.dropped:
        return held
    keys = map(literal_term, part.dropped)
    term = _helper_call("without", [held, *keys], writer)
    left = _only(tree, part.entries)
    key = tree_key(left, arrays)
    exact = all(part.entries[way] == k for way, k in _entries(left, arrays))
    if not exact or key is None:
        return term
    name = Name("params", True, is_foreign=True)
    writer.own(name)
    if is_builtin(left):
        writer.define(build(left, arrays, {}), name)
    writer.values.add(key, name)
    writer.draft.statements.append(Statement(name, term))
    return writer.ref((name, ()))


def _helper_call(helper: str, terms: Sequence[Term], writer: Writer) -> Term:
    return call(Term([Global(writer.program.lifter.helper(helper))]), terms)


# ---- entries -----------------------------------------------------------------------

_EMPTY = "empty"


def _entries(
    tree: Tree, arrays: Sequence[Any], way: Way = ()
) -> Iterator[tuple[Way, Any]]:
    """Yield the entries of nested dicts: what is no dict, and what identifies it."""
    if isinstance(tree, Node) and tree.kind == "dict" and tree.children:
        for key, child in _items(tree):
            yield from _entries(child, arrays, (*way, key))
        return
    is_dict = isinstance(tree, Node) and tree.kind == "dict"
    yield way, _EMPTY if is_dict else tree_key(tree, arrays)


def _only(tree: Node, ways: Collection[Way]) -> Node:
    """Leave out the entries of nested dicts that other ways lead to."""
    inner: dict[Any, set[Way]] = {}
    for way in ways:
        inner.setdefault(way[0], set()).add(way[1:])
    kept = [
        (key, child if () in inner[key] else _only(_node(child), inner[key]))
        for key, child in _items(tree)
        if key in inner
    ]
    keys, children = tuple(k for k, _ in kept), tuple(c for _, c in kept)
    return replace(tree, keys=keys, children=children)


def _items(tree: Node) -> list[tuple[Any, Tree]]:
    return list(zip(tree.keys, tree.children))


def _node(tree: Tree) -> Node:
    assert isinstance(tree, Node)
    return tree


def _count(tree: Tree, arrays: Sequence[Any], writer: Writer) -> int:
    """Count the entries of the dict that would be written otherwise."""
    if isinstance(tree, Leaf):
        return 1
    key = tree_key(tree, arrays)
    if tree.kind != "dict" or (key is not None and writer.locate(key) is not None):
        return 1
    return sum(_count(child, arrays, writer) for child in tree.children)
