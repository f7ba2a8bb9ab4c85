"""Where a recorded call stands: the frames around the one that runs it."""

from __future__ import annotations

import types
from dataclasses import replace

from untrace import jaxapi
from untrace.recovery.looping import turn_of
from untrace.recovery.record import Place, Turn
from untrace.recovery.sites import once_per_site
from untrace.recovery.targets import loops_around


def locate(
    back: types.FrameType | None, parent: types.FrameType
) -> tuple[Place | None, Turn]:
    """Return where a call was written, and in which turns of loops.

    Args:
      back: The frame that made the call.
      parent: That of the recorded function around it, whose loops count, too.
    """
    if back is None:
        return None, ()
    place = _place(back.f_code, back.f_lasti)
    if back is parent and place.loop is None:
        return place, ()
    loops, turn = turn_of(back, parent)
    if len(loops) == place.depth:
        return place, turn
    return replace(place, loop=loops[0], depth=len(loops)), turn


@once_per_site
def _place(code: types.CodeType, lasti: int) -> Place:
    """Return where an instruction is, with the loops around it in its function."""
    line, loops = _line(code, lasti), loops_around(code, lasti)
    place = Place(code.co_filename, line, lasti, code.co_qualname)
    return replace(place, loop=loops[0], depth=len(loops)) if loops else place


def _line(code: types.CodeType, lasti: int) -> int:
    """Return the line of an instruction, as `f_lineno` does."""
    for first, last, line in code.co_lines():
        if first <= lasti < last:
            return line or code.co_firstlineno
    return code.co_firstlineno


def caller(frame: types.FrameType) -> types.FrameType | None:
    """Return the frame that called a function, behind those that only pass it on."""
    back = frame.f_back
    while back is not None and _passes_on(back.f_code):
        back = back.f_back
    return back


def enters_context(frame: types.FrameType) -> bool:
    """Tell whether a decorator entered a context before a frame began."""
    back = frame.f_back
    return back is not None and back.f_code.co_filename in jaxapi.SCOPE_FILES


def _passes_on(code: types.CodeType) -> bool:
    """Tell whether a frame only passes a call on: JAX's, or a context as a decorator."""
    return code.co_filename in jaxapi.SCOPE_FILES or jaxapi.is_wrapper(code)
