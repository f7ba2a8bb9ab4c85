"""Paths such as `["layers"][0].weight`: what stands there, and what that is called."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from untrace.syntax.names import identifier
from untrace.syntax.steps import Item, Path, Step, taken

MAX_NAME = 28


def index_of(step: Step) -> int | None:
    """Return the index of a step that takes an item by one; None for any other.

    >>> index_of(Item(12)), index_of(Item("12"))
    (12, None)
    """
    index = step.key if type(step) is Item else None
    return index if type(index) is int and index >= 0 else None


def is_word_key(step: Step) -> bool:
    """Whether a step takes an item of a dict by a string."""
    return type(step) is Item and type(step.key) is str


def differing_step(path: Path, other: Path) -> int | None:
    """Return the place where two paths take another step; None if they do in several.

    >>> differing_step((Item("a"), Item(0), Item("w")), (Item("a"), Item(1), Item("w")))
    1
    """
    places = [n for n, (one, two) in enumerate(zip(path, other)) if one != two]
    return places[0] if len(places) == 1 and len(path) == len(other) else None


def part_of(value: Any, path: Path) -> Any:
    """Return the part of a value that a path leads to; None if it leads nowhere."""
    for step in path:
        try:
            value = taken(value, step)
        except (AttributeError, LookupError, TypeError, ValueError):
            return None
    return value


def words_of(path: Path) -> list[str]:
    """List the words of a path, one for each step."""
    return [step.word for step in path]


def last_word(words: Sequence[str]) -> str:
    """Name a part after the last word that is no number; a plural loses its s.

    >>> last_word(["layers", "0"])
    'layer'
    """
    for position, word in enumerate(reversed(words)):
        if not word.isdigit():
            return identifier(singular(word) if position else word)
    return "value"


def first_word(words: Sequence[str]) -> str:
    """Name a part after the first word that is no number.

    >>> first_word(["0", "0", "params", "dense"])
    'params'
    """
    return last_word([word for word in words if not word.isdigit()][:1])


def key_name(key: str) -> str:
    """Name a value after its key; one that is a long path ends with the words that tell.

    >>> key_name("res_net/~/block_group_0/~/block_0/~/conv_1/~/mean")
    'conv_1_mean'
    """
    name = identifier(key)
    parts = re.findall(r"\w+", key)
    return name if len(name) <= MAX_NAME else identifier("_".join(parts[-2:]))


def singular(word: str) -> str:
    """Name one of several: a plural loses its s."""
    return word[:-1] if word.endswith("s") and len(word) > 3 else word
