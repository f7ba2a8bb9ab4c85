"""Delta debugging: find a small part of a list that suffices.

Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input" (2002), with
halves first: as long as one half alone suffices, the search is a bisection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def minimize(
    items: Sequence[Item], suffices: Callable[[list[Item]], bool]
) -> list[Item]:
    """Return a part of `items`, in their order, of which no single item can be spared.

    Args:
      items: They suffice.
      suffices: Tells whether a part does. It is not asked about the whole.
    """
    kept = list(items)
    while len(kept) > 1:
        half = len(kept) // 2
        part = next((p for p in (kept[half:], kept[:half]) if suffices(p)), None)
        if part is None:
            break
        kept = part
    size = len(kept) // 4 or 1
    while kept:
        n_before = len(kept)
        kept = _without_chunks(kept, size, suffices)
        if size == 1 and len(kept) in (n_before, 1):
            break
        size = size // 2 or 1
    return kept


def _without_chunks(
    kept: list[Item], size: int, suffices: Callable[[list[Item]], bool]
) -> list[Item]:
    """Leave out every chunk that can be spared, the last first."""
    for end in range(len(kept), 0, -size):
        rest = kept[: max(0, end - size)] + kept[end:]
        if rest and len(rest) < len(kept) and suffices(rest):
            kept = rest
    return kept
