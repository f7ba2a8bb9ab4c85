"""Write the alike parts of a large display once: `{i: {...} for i in range(12)}`.

What is displayed is an expression for each entry; alike are those with equal texts.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

from untrace.capture.dict_keys import quoted
from untrace.optional import gives, optional

MIN_SAVED = 400
"""Fewest characters that are worth a comprehension."""

_WORD = re.compile(r"\w+")
_NUMBERED = re.compile(r"(?P<stem>\w*?)(?P<number>0|[1-9]\d*)", re.ASCII)


@optional(gives(""))
def short_dict(keys: Sequence[Any], parts: Sequence[str], shows_stems: bool) -> str:
    """Write a dict, whose order does not matter.

    Args:
      parts: The texts of what it holds.
      shows_stems: Numbered keys may be put together of their stem and number.

    Returns:
      The text; "" if nothing in it is alike.
    """
    alike: dict[str, list[Any]] = {}
    for key, part in zip(keys, parts):
        alike.setdefault(part, []).append(key)
    if not any(_is_shorter(part, len(held)) for part, held in alike.items()):
        return ""
    entries: list[str] = []
    for key, part in zip(keys, parts):
        held = alike[part]
        if not _is_shorter(part, len(held)):
            entries.append(f"{quoted(key)}: {part}")
        elif key == held[0]:
            made = f"{{{_turns(held, part, shows_stems)}}}"
            entries.append(made if len(alike) == 1 else f"**{made}")
    return entries[0] if len(alike) == 1 else f"{{{', '.join(entries)}}}"


@optional(gives(""))
def short_row(kind: str, parts: Sequence[str]) -> str:
    """Write a list or a tuple; "" if there are no equal items in a row."""
    items: list[str] = []
    for part, held in itertools.groupby(parts):
        n = sum(1 for _ in held)
        turns = f"{part} for _ in range({n})"
        if not _is_shorter(part, n):
            items += [part] * n
        elif n == len(parts):
            return f"[{turns}]" if kind == "list" else f"tuple({turns})"
        else:
            items.append(f"*({turns})")
    if len(items) == len(parts):
        return ""
    inner = ", ".join(items)
    return f"[{inner}]" if kind == "list" else f"({inner})"


def _is_shorter(part: str, n: int) -> bool:
    return (n - 1) * len(part) >= MIN_SAVED


def _turns(keys: Sequence[Any], part: str, shows_stems: bool) -> str:
    """Write the inside of a comprehension."""
    i, name = _variable(part, "ijk"), _variable(part, ("name", "key"))
    if all(type(key) is int for key in keys):
        return f"{i}: {part} for {i} in {_numbers(keys)}"
    found = [_NUMBERED.fullmatch(key) if type(key) is str else None for key in keys]
    stems = {match and match["stem"] for match in found}
    stem = stems.pop()
    if shows_stems and stem and not stems:
        numbers = sorted(int(match["number"]) for match in found if match)
        return f'f"{stem}{{{i}}}": {part} for {i} in {_numbers(numbers)}'
    return f"{name}: {part} for {name} in ({', '.join(map(quoted, keys))})"


def _numbers(numbers: Sequence[int]) -> str:
    first, last = numbers[0], numbers[-1]
    if list(numbers) == list(range(first, last + 1)):
        return f"range({first}, {last + 1})" if first else f"range({last + 1})"
    return f"({', '.join(map(str, numbers))})"


def _variable(part: str, names: Sequence[str]) -> str:
    """Choose a name that an expression does not mention."""
    words = {*_WORD.findall(part)}
    numbered = (f"{names[0]}_{n}" for n in itertools.count(2))
    return next(name for name in itertools.chain(names, numbered) if name not in words)
