"""Lines under `with`: statements in a row that stand under the same items share one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, takewhile

from untrace.lifting.printing import INDENT

Items = tuple[str, ...]
"""The items of a `with`, the outermost first."""

Row = tuple[Items, str]
"""A line, and the items that it stands under."""

FreeRow = tuple[Items | None, str]
"""The same; None if it computes nothing, and may stand under any."""


def placed_between(rows: Sequence[FreeRow]) -> list[Row]:
    """Let lines that compute nothing stand under what the lines around them share."""
    found: list[Row] = []
    for place, (items, line) in enumerate(rows):
        if items is None:
            before = found[-1][0] if found else ()
            after = (items for items, _ in rows[place + 1 :] if items is not None)
            items = shared(before, next(after, ()))
        found.append((items, line))
    return found


def under_contexts(rows: Sequence[Row]) -> list[str]:
    """Write `with` before the lines that stand under the same items."""
    lines: list[str] = []
    for first, group in groupby(rows, key=lambda row: row[0][:1]):
        inner = list(group)
        if not first:
            lines += [line for _, line in inner]
            continue
        common = inner[0][0]
        for items, _ in inner:
            common = shared(common, items)
        lines.append(f"with {', '.join(common)}:")
        rest = under_contexts([(items[len(common) :], line) for items, line in inner])
        lines += [INDENT + line if line else line for line in rest]
    return lines


def shared(one: Items, other: Items) -> Items:
    """Return the items that two lines stand under, the outermost first."""
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(one, other))
    return tuple([item for item, _ in pairs])
