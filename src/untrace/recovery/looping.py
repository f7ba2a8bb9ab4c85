"""Which loops of the program a call stands in, and what their variables hold then."""

from __future__ import annotations

import types
from typing import Any

from untrace.recovery.record import Turn
from untrace.recovery.targets import loops_around


def turn_of(
    frame: types.FrameType, parent: types.FrameType | None
) -> tuple[tuple[tuple[str, ...], ...], Turn]:
    """Return the loops around a call, the innermost one first, and the turns it is in.

    Comprehensions and generators have frames of their own, up to Python 3.11 or always.

    Args:
      frame: The one that makes the call.
      parent: That of the recorded function around it.

    Returns:
      The variables of each loop, and what they hold.
    """
    around: list[tuple[str, ...]] = []
    held: dict[str, Any] = {}
    back: types.FrameType | None = frame
    while back is not None:
        loops = loops_around(back.f_code, back.f_lasti)
        around += loops
        if any(loops):
            values = back.f_locals
            for name in (name for names in loops for name in names):
                if name in values:
                    held.setdefault(name, values[name])
        back = None if back is parent else back.f_back
    return tuple(around), tuple(held.items())
