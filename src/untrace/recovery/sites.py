"""Remember what was read about a place in the code: calls there come again and again."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import TypeVar

MAX_SITES = 65536
_Read = TypeVar("_Read")


def once_per_site(
    read: Callable[[types.CodeType, int], _Read],
) -> Callable[[types.CodeType, int], _Read]:
    """Remember what a function reads at an instruction of a code object.

    The key is the `id` of the code: its hash would cost more than the look-up saves.
    """
    known: dict[tuple[int, int], tuple[types.CodeType, _Read]] = {}

    @functools.wraps(read)
    def remembered(code: types.CodeType, lasti: int) -> _Read:
        found = known.get((id(code), lasti))
        if found is None:
            if len(known) >= MAX_SITES:
                known.clear()
            found = known[id(code), lasti] = code, read(code, lasti)
        return found[1]

    return remembered
