"""Write a tree that has only some of the leaves of another, or leaves of two others.

Optimizers leave the decay out for vectors: they put empty nodes in the places of some
leaves, map a function over what is left, and put both together again. Which leaves these
are is told by their ranks, or by the keys that hold them:
`jax.tree.map(lambda x: x if x.ndim > 1 else (), updates)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from untrace.capture.trees import Leaf, Tree, step_to
from untrace.lifting.recorded.building import call
from untrace.lifting.recorded.functions.likeness import node_at
from untrace.lifting.recorded.naming.paths import is_word_key
from untrace.lifting.recorded.naming.values import Found
from untrace.lifting.recorded.terms import Term
from untrace.lifting.recorded.writer import Writer
from untrace.optional import gives, optional
from untrace.syntax.precedence import LAMBDA
from untrace.syntax.steps import Path, ends_with, without_end
from untrace.syntax.text import quote

MIN_LEAVES = 6
MAX_KEYS = 4


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Which leaves are kept: those of more than some rank, or under some keys.

    Attributes:
      keys: What is compared with the key, and how; "" if the rank tells.
    """

    rank: int = 0
    keys: str = ""


@optional(gives(None))
def of_masked(tree: Tree, arrays: Sequence[Any], writer: Writer) -> Term | None:
    """Write a tree by one or two others that have names; None if it is none such."""
    found = dict(_leaves(tree, arrays))
    roots = _roots(found, writer) if len(found) >= MIN_LEAVES else {}
    wholes = {root: _whole(root, writer) for root in dict.fromkeys(roots.values())}
    if any(whole.keys() != found.keys() for whole in wholes.values()):
        return None
    match [*wholes]:
        case [root]:
            chosen = _chosen(wholes[root], list(roots), writer)
            return chosen and _mapped(chosen, ["x"], "()", [root], writer)
        case [_, _] if len(roots) == len(found):
            # The leaves of one are all there, to tell which of the other's are taken.
            old, new = sorted(wholes, key=lambda root: _has_holes(wholes[root]))
            taken = [way for way, root in roots.items() if root == new]
            chosen = _chosen(wholes[old], taken, writer)
            return chosen and _mapped(chosen, ["old", "new"], "old", [old, new], writer)
        case _:
            return None


def _leaves(
    tree: Tree, arrays: Sequence[Any], way: Path = ()
) -> Iterator[tuple[Path, Any]]:
    """Yield the leaves of a tree with the paths to them; None for empty tuples."""
    if isinstance(tree, Leaf):
        yield way, arrays[tree.index]
        return
    if tree.kind == "tuple" and not tree.children:
        yield way, None
    for key, child in zip(tree.keys, tree.children):
        yield from _leaves(child, arrays, (*way, step_to(tree, key)))


def _roots(found: Mapping[Path, Any], writer: Writer) -> dict[Path, Found]:
    """Return the trees that have leaves in the same places; {} if one is of none."""
    roots: dict[Path, Found] = {}
    for way, leaf in found.items():
        if leaf is None:
            continue
        origin = writer.locate(id(leaf))
        if origin is None or not ends_with(origin[1], way):
            return {}
        roots[way] = origin[0], without_end(origin[1], way)
    return roots


def _whole(root: Found, writer: Writer) -> dict[Path, Any]:
    node = node_at(*root, writer)
    if node is None:
        return {}
    return dict(_leaves(node, writer.values.tree(root[0].held)[1]))


def _has_holes(leaves: Mapping[Path, Any]) -> bool:
    return any(leaf is None for leaf in leaves.values())


def _chosen(
    leaves: Mapping[Path, Any], kept: Sequence[Path], writer: Writer
) -> _Chosen | None:
    """Find out what leaves that are kept have in common, and no others have."""
    others = leaves.keys() - {*kept}
    if not (kept and others) or _has_holes(leaves):
        return None
    ranks = {way: np.ndim(leaf) for way, leaf in leaves.items()}
    most, least = max(ranks[way] for way in others), min(ranks[way] for way in kept)
    if least > most:
        return _Chosen(rank=most)
    keys = {way: way[-1] for way in leaves}
    named = {keys[way] for way in kept}, {keys[way] for way in others}
    is_by_key = named[0].isdisjoint(named[1]) and not writer.program.options.anonymous
    if not is_by_key or not all(map(is_word_key, keys.values())):
        return None
    least_keys = min(named, key=len)
    words = sorted(quote(key.word) for key in least_keys)
    if len(words) > MAX_KEYS:
        return None
    is_in = least_keys == named[0]
    sign, text = ("==" if is_in else "!="), words[0]
    if len(words) > 1:
        sign, text = ("in" if is_in else "not in"), f"({', '.join(words)})"
    return _Chosen(keys=f"{sign} {text}")


def _mapped(
    chosen: _Chosen,
    names: Sequence[str],
    rest: str,
    roots: Sequence[Found],
    writer: Writer,
) -> Term:
    """Write `jax.tree.map(lambda old, new: new if old.ndim > 1 else old, first, other)`."""
    if chosen.keys:
        home, condition = "map_with_path", f"path[-1].key {chosen.keys}"
    else:
        home, condition = "map", f"{names[0]}.ndim > {chosen.rank}"
    parameters = ", ".join(["path", *names] if chosen.keys else names)
    function = f"lambda {parameters}: {names[-1]} if {condition} else {rest}"
    trees = [writer.reach(root, is_tree=True) for root in roots]
    mapped = writer.program.home_term(("jax.tree", home))
    return call(mapped, [Term([function], LAMBDA), *trees])
