"""Accesses such as `["layers"][0].weight`, taken apart into steps."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any, TypeVar

from untrace.syntax.names import identifier

MAX_NAME = 28
_Step = TypeVar("_Step")


def steps(path: str) -> list[str]:
    """Split the access to a part into its steps.

    >>> steps('["a"][0].b')
    ['["a"]', '[0]', '.b']
    """
    found: list[str] = []
    depth, quote, is_escaped = 0, "", False
    for char in path:
        if not quote and depth == 0 and char in "[.":
            found.append("")
        if quote:
            quote = "" if char == quote and not is_escaped else quote
            is_escaped = char == "\\" and not is_escaped
        elif char in "\"'":
            quote = char
        else:
            depth += (char == "[") - (char == "]")
        found[-1] += char
    return found


def index_of(step: str) -> int | None:
    """Return the index of a step that takes an item by one; None for any other.

    >>> index_of("[12]"), index_of('["12"]'), index_of(".w")
    (12, None, None)
    """
    index = step[1:-1]
    return int(index) if step[:1] == "[" and index.isdecimal() else None


def is_word_key(step: str) -> bool:
    """Whether a step takes an item of a dict by a string."""
    return step.startswith(("['", '["'))


def differing_step(path: str, other: str) -> tuple[str, str, str, str] | None:
    """Return where two paths take another step: what is before, both steps, what follows.

    None is for paths that differ in none, or in several.

    >>> differing_step('["a"][0].w', '["a"][1].w')
    ('["a"]', '[0]', '[1]', '.w')
    """
    way, other_way = steps(path), steps(other)
    places = [n for n, pair in enumerate(zip(way, other_way)) if pair[0] != pair[1]]
    if len(way) != len(other_way) or len(places) != 1:
        return None
    (n,) = places
    return "".join(way[:n]), way[n], other_way[n], "".join(way[n + 1 :])


def part_of(value: Any, path: str) -> Any:
    """Follow a path such as `["layers"][0].weight`; None if it leads nowhere."""
    for step in steps(path):
        try:
            if step.startswith("."):
                value = getattr(value, step[1:])
            else:
                value = value[ast.literal_eval(step[1:-1])]
        except (AttributeError, LookupError, TypeError, ValueError):
            return None
    return value


def common(paths: Sequence[Sequence[_Step]]) -> list[_Step]:
    """Return the steps that all paths begin with."""
    shared: list[_Step] = []
    for level in zip(*paths):
        if len(set(level)) > 1:
            break
        shared.append(level[0])
    return shared


def last_word(way: Sequence[str]) -> str:
    """Name a part after the last step that is no number; a plural loses its s."""
    for position, step in enumerate(reversed(way)):
        word = step.strip("[].\"'")
        if not word.isdigit():
            return identifier(singular(word) if position else word)
    return "value"


def first_word(way: Sequence[str]) -> str:
    """Name a part after the first step that is no number.

    >>> first_word(steps('[0][0]["params"]["dense"]'))
    'params'
    """
    words = [step for step in way if not step.strip("[]").isdigit()]
    return last_word(words[:1])


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
