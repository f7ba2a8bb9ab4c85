"""What is computed inside a transformed function, and does not depend on its arguments.

An object may keep what it has computed, such as the parts of its array. If that happens
first in a function that is mapped, and the object is from outside, the parts may be used
outside later, since they are no values of the mapped function. They are computed before
it then.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from untrace.lifting.recorded.naming.values import arrays_in
from untrace.recovery.record import Body, Call, calls_around


def moved_out(
    body: Body, array: Any, opened: Collection[Call]
) -> tuple[Call, Call] | None:
    """Return the call to move so that an array is known outside, and before which one.

    Args:
      array: What is used where no name holds it.
      opened: The calls of Python functions around the place where it is used.

    Returns:
      The outermost call of a transformation around the call that made the array, and
      that call; None if it was not made so.
    """
    makers = (
        (item, around)
        for item, around in calls_around(body)
        if not item.is_own and any(made is array for made in arrays_in(item.result))
    )
    maker, outer = next(makers, (None, ()))
    if maker is None:
        return None
    for depth, item in enumerate(outer):
        if item.is_own:
            if depth and item not in opened:  # the program itself is the outermost call
                return None
        elif any(inner in opened for inner in outer[depth + 1 :]):
            continue  # it is used in there as well
        elif _is_known_before(item, array):
            return item, maker
    return None


def _is_known_before(transformed: Call, array: Any) -> bool:
    """Whether an array is a value of the function that makes a call."""
    span = transformed.span
    return span is not None and any(
        bind.trace is span.trace and any(made is array for made in bind.results)
        for bind in span.log[span.first : span.last]
    )
