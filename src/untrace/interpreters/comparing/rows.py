"""Lay the statements of two matched blocks out as one list, as `diff` does lines."""

from __future__ import annotations

import bisect
import collections
from collections.abc import Sequence

from untrace.interpreters.comparing.changes import Change, Row
from untrace.interpreters.comparing.matching import Matching
from untrace.interpreters.comparing.statements import Writer


def moved(found: Matching) -> list[int]:
    """The fewest statements of the first block that would have to move.

    They are those outside of a longest increasing sequence of pairs.
    """
    pairs = sorted(found.partner.items())
    tails: list[int] = []
    ends: list[int] = []
    previous: list[int] = []
    for at, (_, other) in enumerate(pairs):
        place = bisect.bisect_left(tails, other)
        previous.append(ends[place - 1] if place else -1)
        if place == len(tails):
            tails.append(other)
            ends.append(at)
        else:
            tails[place], ends[place] = other, at
    kept: set[int] = set()
    at = ends[-1] if ends else -1
    while at >= 0:
        kept.add(pairs[at][0])
        at = previous[at]
    return [index for index, _ in pairs if index not in kept]


def lay_out(
    found: Matching,
    changes: dict[int, Change],
    additions: dict[int, Change],
    results: Change | None,
    writer: Writer,
    n_context: int,
) -> tuple[Row, ...]:
    """List the statements that differ, with those around them.

    Args:
      found: The matched blocks.
      changes: By statement of the first block: removed or changed.
      additions: By statement of the second block.
      results: A change of the return statement.
      writer: Writes statements.
      n_context: How many statements to show before and after.
    """
    anchored = _anchored(found, additions)
    slots: list[list[Row] | int] = [_added(additions, anchored[-1])]
    for index in found.before.sequence():
        if not found.before.live[index] and index not in changes:
            continue
        change = changes.get(index)
        slots.append(index if change is None else _rows(change))
        slots.append(_added(additions, anchored[index]))
    slots.append(_rows(results) if results else [])
    return tuple(_with_context([s for s in slots if s != []], writer, n_context))


def _rows(change: Change) -> list[Row]:
    """Both statements of a change; the words stand with the last."""
    rows: list[Row] = []
    if change.before:
        rows.append(Row("-", change.before, "" if change.after else _note(change)))
    if change.after:
        rows.append(Row("+", change.after, _note(change)))
    return rows


def _note(change: Change) -> str:
    places = [
        line.partition(": ")[0] for line in (change.before_line, change.after_line)
    ]
    where = " → ".join(dict.fromkeys(filter(None, places)))
    return "   ".join(filter(None, [change.what, where]))


def _added(additions: dict[int, Change], indices: Sequence[int]) -> list[Row]:
    return [row for index in indices for row in _rows(additions[index])]


def _anchored(found: Matching, additions: dict[int, Change]) -> dict[int, list[int]]:
    """Where to show what is new: after the statement that stands before it."""
    anchored: dict[int, list[int]] = collections.defaultdict(list)
    last = -1
    for index in found.after.sequence():
        if index in additions:
            anchored[last].append(index)
        else:
            last = found.mate.get(index, last)
    return anchored


def _with_context(
    slots: Sequence[list[Row] | int], writer: Writer, n_context: int
) -> list[Row]:
    """Write what is near a change; a number is a statement that is the same."""
    places = [i for i, slot in enumerate(slots) if not isinstance(slot, int)]
    rows: list[Row] = []
    last = -1
    for i, slot in enumerate(slots):
        if not isinstance(slot, int):
            is_near = True
        else:
            at = bisect.bisect_left(places, i)
            near = places[max(at - 1, 0) : at + 1]
            is_near = any(abs(i - place) <= n_context for place in near)
        if not is_near:
            continue
        if i > last + 1:
            rows.append(Row("…", ""))
        rows += [Row(" ", writer.statement(0, slot))] if isinstance(slot, int) else slot
        last = i
    if last + 1 < len(slots):
        rows.append(Row("…", ""))
    return rows
