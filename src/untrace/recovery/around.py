"""Where a recorded call stands: the frames around the one that runs it."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import replace

from untrace import jaxapi
from untrace.recovery import bytecode
from untrace.recovery.classifying import (
    is_handed_over,
    is_ignored,
    is_written_inside,
    passes_on,
    reads_attribute,
)
from untrace.recovery.looping import turn_at, turn_of
from untrace.recovery.record import RETURNED, Place, Target, Turn, is_library


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


def callers(
    frame: types.FrameType, expected: types.FrameType
) -> tuple[types.FrameType | None, types.FrameType | None]:
    """Return the frame that called a function, behind those that only pass it on.

    It most often is the one that is expected.

    Returns:
      The frame of the program, and the frame where the call is spelled. They are two if
      there is code between that is no part of the program.
    """
    near = _behind(frame.f_back, expected, _passes_on)
    if near is None or near is expected or not _is_between(near.f_code):
        return near, near
    back = _behind(near, expected, lambda c: _passes_on(c) or _is_between(c))
    if back is expected and _is_between(expected.f_code):  # that of the recorder
        return near, near
    return back, near


def inner_target(near: types.FrameType, back: types.FrameType) -> tuple[bool, Target]:
    """Return what code that is written inside another function names a result.

    Returns:
      Whether it does something with the result itself, and the names that it has for it;
      what it returns at once is named by the function around.
    """
    frame: types.FrameType | None = near
    while frame is not None and frame is not back:
        if not _passes_on(frame.f_code):
            if not is_written_inside(frame.f_code.co_filename):
                break
            target = bytecode.site(frame.f_code, frame.f_lasti).target
            if target != RETURNED:
                return True, target
        frame = frame.f_back
    return False, None


def _behind(
    back: types.FrameType | None,
    expected: types.FrameType,
    passes: Callable[[types.CodeType], bool],
) -> types.FrameType | None:
    while back is not None and back is not expected and passes(back.f_code):
        back = back.f_back
    return back


def enters_context(frame: types.FrameType) -> bool:
    """Whether a decorator entered a context before a frame began."""
    back = frame.f_back
    return back is not None and back.f_code.co_filename in jaxapi.SCOPE_FILES


def _passes_on(code: types.CodeType) -> bool:
    """Whether a frame only passes a call on: JAX's, or a context as a decorator."""
    is_scope = code.co_filename in jaxapi.SCOPE_FILES
    return is_scope or reads_attribute(code) or jaxapi.is_wrapper(code)


def is_users(code: types.CodeType) -> bool:
    """Whether code is the user's: no library's, Python's, JAX's, or this package's."""
    return not (is_library(code) or is_ignored(code.co_filename))


def _is_between(code: types.CodeType) -> bool:
    """Whether code stands between what a program calls and what it calls of JAX."""
    return passes_on(code.co_filename) and not is_handed_over(code)
