"""Report the frames of one thread that begin and end, as cheaply as Python allows.

`sys.monitoring` (Python 3.12 and later) stops reporting a function once it is known to
be of no interest; `sys.setprofile` reports every call. Most of what is reported either
way is JAX calling itself: it is sorted out before a frame is made.
"""

# `sys._getframe` is how monitoring callbacks find their frame.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import types
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Protocol

from untrace.recovery.kinds import Kinds, Own

_LESS = 100  # times as many new objects as usual before garbage is looked for
_TOOL = 4  # of the six that `sys.monitoring` has; debuggers and profilers use others


class Entry(Protocol):
    """A frame whose end matters.

    Attributes:
      code: The code that it runs.
      expected: The `id` of the code of the frames that may count in it; None if the watcher
        has to be asked.
    """

    code: types.CodeType
    expected: Mapping[int, Any] | None


class Watcher(Protocol):
    """What hears of frames that begin and end.

    Attributes:
      stack: The frames whose end matters, the innermost one last; never empty. It is
        read at each event, which is why no method is called for it.
      always: The `id` of the code of frames that count wherever they begin.
      kinds: What functions are; None stands for those of no interest, now and later.
      error: What went wrong while it listened; it is not told anything then.
    """

    error: Exception | None

    @property
    def kinds(self) -> Kinds: ...

    @property
    def stack(self) -> Sequence[Entry]: ...

    @property
    def always(self) -> Mapping[int, Any]: ...

    def expects(self, kind: Any) -> bool:
        """Tell whether a frame may count that begins now; take note of one that does not."""
        ...

    def was_quiet(self, own: Own) -> None:
        """Take note of a run of a function that does not count."""
        ...

    def begin(self, frame: types.FrameType, kind: Any) -> None:
        """Take note of a frame that begins."""
        ...

    def end(self, frame: types.FrameType, value: Any) -> None:
        """Take note of a frame that returns; None stands for one that raises."""
        ...


@contextlib.contextmanager
def watching(watcher: Watcher) -> Generator[None, None, None]:
    """Tell a watcher of the frames of this thread."""
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None and monitoring.get_tool(_TOOL) is None:
        watched = _monitored(watcher, monitoring)
    else:
        watched = _profiled(watcher)
    with _collecting_less(), watched:
        yield


def report_again() -> None:
    """Report functions again that were of no interest until now."""
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None:
        monitoring.restart_events()


@contextlib.contextmanager
def _collecting_less() -> Generator[None, None, None]:
    """Let Python look for garbage less often: what was recorded is none, and much."""
    first, *others = before = gc.get_threshold()
    gc.set_threshold(first * _LESS, *others)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextlib.contextmanager
def _profiled(watcher: Watcher) -> Generator[None, None, None]:
    known, learn = watcher.kinds.known, watcher.kinds.learn
    expects, stack, always = watcher.expects, watcher.stack, watcher.always
    quiet = watcher.was_quiet

    def profile(frame: types.FrameType, event: str, value: Any) -> None:
        try:  # most events are calls of builtins, and of functions of no interest
            if event == "call":
                code = frame.f_code
                key = id(code)
                kind = known[key] if key in known else learn(code)
                if kind is None or watcher.error is not None:
                    return
                expected = stack[-1].expected
                if expected is None:
                    if not expects(kind):
                        return
                elif key not in expected and key not in always:
                    if type(kind) is Own:
                        quiet(kind)
                    return
                watcher.begin(frame, kind)
            elif (
                event == "return"
                and stack[-1].code is frame.f_code
                and not watcher.error
            ):
                watcher.end(frame, value)
        except Exception as error:  # it must not reach the user's function
            watcher.error = error

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield
    finally:
        if before is None or callable(before):
            sys.setprofile(before)
        else:  # cProfile, which is no function
            before.enable()


@contextlib.contextmanager
def _monitored(watcher: Watcher, monitoring: Any) -> Generator[None, None, None]:
    events, disable = monitoring.events, monitoring.DISABLE
    thread, this_thread = threading.get_ident(), threading.get_ident
    known, learn = watcher.kinds.known, watcher.kinds.learn
    expects, stack, always = watcher.expects, watcher.stack, watcher.always
    getframe, quiet = sys._getframe, watcher.was_quiet

    def begins(code: types.CodeType, offset: int) -> Any:
        try:
            key = id(code)
            kind = known[key] if key in known else learn(code)
            if kind is None:
                return disable
            if this_thread() != thread or watcher.error is not None:
                return None
            expected = stack[-1].expected
            if expected is None:
                if not expects(kind):
                    return None
            elif key not in expected and key not in always:
                if type(kind) is Own:
                    quiet(kind)
                return None
            watcher.begin(getframe(1), kind)
        except Exception as error:  # it must not reach the user's function
            watcher.error = error
        return None

    def ends(code: types.CodeType, offset: int, value: Any) -> Any:
        try:
            if stack[-1].code is not code:
                key = id(code)
                kind = known[key] if key in known else learn(code)
                return disable if kind is None else None
            if this_thread() == thread and watcher.error is None:
                watcher.end(getframe(1), value)
        except Exception as error:  # as above
            watcher.error = error
        return None

    def unwinds(code: types.CodeType, offset: int, raised: Any) -> Any:
        try:
            if stack[-1].code is not code:
                return
            if this_thread() == thread and watcher.error is None:
                watcher.end(getframe(1), None)
        except Exception as error:  # as above
            watcher.error = error

    monitoring.use_tool_id(_TOOL, "untrace")
    try:
        monitoring.register_callback(_TOOL, events.PY_START, begins)
        monitoring.register_callback(_TOOL, events.PY_RETURN, ends)
        monitoring.register_callback(_TOOL, events.PY_UNWIND, unwinds)
        watched = events.PY_START | events.PY_RETURN | events.PY_UNWIND
        monitoring.set_events(_TOOL, watched)
        monitoring.restart_events()
        yield
    finally:
        monitoring.set_events(_TOOL, 0)
        for event in (events.PY_START, events.PY_RETURN, events.PY_UNWIND):
            monitoring.register_callback(_TOOL, event, None)
        monitoring.free_tool_id(_TOOL)
