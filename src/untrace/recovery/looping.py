"""Which loops of the program a call stands in, and what their variables hold then."""

from __future__ import annotations

import types
from typing import Any

from untrace.recovery.record import Turn
from untrace.recovery.targets import loops_around


def turn_of(
    frame: types.FrameType, parent: types.FrameType | None
) -> tuple[tuple[str, ...] | None, Turn]:
    """Return the variables of the innermost loop around a call, and the turns it is in.

    Comprehensions and generators have frames of their own, up to Python 3.11 or always.

    Args:
      frame: The one that makes the call.
      parent: That of the recorded function around it.

    Returns:
      The variables, None if the call stands in no loop, and what those of all loops
      hold.
    """
    innermost: tuple[str, ...] | None = None
    held: dict[str, Any] = {}
    back: types.FrameType | None = frame
    while back is not None:
        loops = loops_around(back.f_code, back.f_lasti)
        if loops and innermost is None:
            innermost = loops[0]
        if any(loops):
            values = back.f_locals
            for name in (name for names in loops for name in names):
                if name in values:
                    held.setdefault(name, values[name])
        back = None if back is parent else back.f_back
    return innermost, tuple(held.items())
