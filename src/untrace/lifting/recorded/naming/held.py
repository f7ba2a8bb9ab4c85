"""What the parts of a container were in the recorded run: how many, and their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from untrace.lifting.recorded.naming.paths import (
    differing_step,
    is_word_key,
    last_word,
    part_of,
    singular,
    words_of,
)
from untrace.lifting.recorded.terms import Name
from untrace.syntax.names import identifier
from untrace.syntax.steps import Path


def length_of(name: Name, path: Path) -> int | None:
    """Return how many items a list or tuple has; None if it is no such container."""
    value = part_of(name.held, path)
    return len(value) if type(value) in (list, tuple) else None


def are_alike(values: Sequence[Any]) -> bool:
    """Whether lists, tuples and dicts hold the same in the same places.

    >>> are_alike([(1, [2]), (3, [4])]), are_alike([[1], [1, 2]])
    (True, False)
    """
    first = values[0]
    if any(type(value) is not type(first) for value in values):
        return False
    if isinstance(first, (list, tuple)):
        lengths = {len(value) for value in values}
        return len(lengths) == 1 and all(map(are_alike, zip(*values)))
    if type(first) is dict:
        is_same = all(list(value) == list(first) for value in values)
        return is_same and all(are_alike([v[key] for v in values]) for key in first)
    return True


def leading(path: Path) -> list[Path]:
    """Return the paths to the trees that something is in, the largest first."""
    return [path[:n] for n in range(len(path))]


def is_leaf(name: Name, tree: Path, position: int, first: Path, path: Path) -> bool:
    """Whether two paths lead to the first leaf of a tree and to another one."""
    leaves = jax.tree.leaves(part_of(name.held, tree))
    return (
        position < len(leaves)
        and leaves[0] is part_of(name.held, first)
        and leaves[position] is part_of(name.held, path)
    )


def differing_key(first: Path, path: Path) -> tuple[int, list[str]]:
    """Return where two paths have other keys of a dict, and these; else no keys.

    >>> differing_key((Item("a"), Item(0)), (Item("b"), Item(0)))
    (0, ['a', 'b'])
    """
    n = differing_step(first, path)
    if n is None or not (is_word_key(first[n]) and is_word_key(path[n])):
        return 0, []
    return n, [first[n].word, path[n].word]


def leaves_of(name: Name, tree: Path) -> list[Any]:
    """List the leaves of a tree."""
    return jax.tree.leaves(part_of(name.held, tree))


def n_leaves(name: Name, tree: Path) -> int:
    """Count the leaves of a tree."""
    return len(leaves_of(name, tree))


def item_hint(name: Name, container: Path) -> str:
    """Name an item of a container after the container."""
    plural = last_word(words_of(container)) if container else name.hint
    return identifier(singular(plural)) if singular(plural) != plural else "item"
