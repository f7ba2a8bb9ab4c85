"""Remember what was computed of an array for as long as the array lives.

The same inputs stand in one candidate after another, and may be large.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


def by_identity(function: Callable[[Any], Result]) -> Callable[[Any], Result]:
    """Compute a function of one array once per array, which must not change."""
    known: dict[int, tuple[weakref.ref[Any], Result]] = {}

    def remembered(value: Any) -> Result:
        found = known.get(id(value))
        if found is not None and found[0]() is value:
            return found[1]
        result = function(value)
        try:
            key = id(value)
            reference = weakref.ref(value, lambda _: known.pop(key, None))
        except TypeError:  # a Python number
            return result
        known[key] = reference, result
        return result

    return remembered
