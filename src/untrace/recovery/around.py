"""Where a recorded call stands: the frames around the one that runs it."""

from __future__ import annotations

import types
from dataclasses import replace

from untrace import jaxapi
from untrace.recovery import bytecode
from untrace.recovery.classifying import is_handed_over, passes_on, reads_attribute
from untrace.recovery.looping import turn_at, turn_of
from untrace.recovery.record import Place, Turn


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
    site = bytecode.site(back.f_code, back.f_lasti)
    place = site.place
    if back is parent:
        return place, turn_at(site.loops, back) if site.loops else ()
    loops, turn = turn_of(back, parent)
    if len(loops) == place.depth:
        return place, turn
    return replace(place, loop=loops[0], depth=len(loops)), turn


def caller(frame: types.FrameType, expected: types.FrameType) -> types.FrameType | None:
    """Return the frame that called a function, behind those that only pass it on.

    It most often is the one that is expected.
    """
    back = frame.f_back
    while back is not None and back is not expected and _passes_on(back.f_code):
        back = back.f_back
    if back is expected and _is_between(expected.f_code):  # the recorder's own frame
        return frame.f_back
    return back


def enters_context(frame: types.FrameType) -> bool:
    """Tell whether a decorator entered a context before a frame began."""
    back = frame.f_back
    return back is not None and back.f_code.co_filename in jaxapi.SCOPE_FILES


def _passes_on(code: types.CodeType) -> bool:
    """Tell whether a frame only passes a call on: JAX's, or a context as a decorator."""
    is_scope = code.co_filename in jaxapi.SCOPE_FILES
    is_wrapper = reads_attribute(code) or jaxapi.is_wrapper(code)
    return is_scope or is_wrapper or _is_between(code)


def _is_between(code: types.CodeType) -> bool:
    """Tell whether code stands between what a program calls and what it calls of JAX."""
    return passes_on(code.co_filename) and not is_handed_over(code)
