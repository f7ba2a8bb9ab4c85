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
        for name, value in turn_at(loops, back):
            held.setdefault(name, value)
        back = None if back is parent else back.f_back
    return tuple(around), tuple(held.items())


def turn_at(loops: tuple[tuple[str, ...], ...], frame: types.FrameType) -> Turn:
    """Return what the variables of loops hold in a frame."""
    names = [name for variables in loops for name in variables]
    if not names:
        return ()
    values = frame.f_locals
    return tuple([(n, values[n]) for n in dict.fromkeys(names) if n in values])
