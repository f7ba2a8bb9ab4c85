"""Report the frames of one thread that begin and end, as cheaply as Python allows.

`sys.monitoring` (Python 3.12 and later) stops reporting a function once it is known to
be of no interest; `sys.setprofile` reports every call. Most of what is reported either
way is JAX calling itself: it is sorted out before a frame is made.
"""

# `sys._getframe` is how monitoring callbacks find their frame.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import types
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Protocol

from untrace import jaxapi
from untrace.recovery.kinds import Kinds, Own

_monitoring: Any = getattr(sys, "monitoring", None)
# Of the six of `sys.monitoring`; debuggers and profilers use others.
_TOOLS = (4, 3) if _monitoring is not None else ()


class Entry(Protocol):
    """A frame whose end matters.

    Attributes:
      code: The code that it runs.
      expected: The `id` of the code of the frames that may count in it; None if the watcher
        has to be asked.
    """

    frame: types.FrameType
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
        """Whether a frame may count that begins now; take note of one that does not."""
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
    owner, before = f"untrace {next(_numbers)}", _here.switch
    switch = before
    try:
        tool = _free_tool(owner)
        if tool is None:
            switch = _profiled(watcher)
        else:
            switch = _monitored(watcher, tool, owner)
        _here.switch = switch
        with jaxapi.rare_collection():
            switch(True)
            yield
    finally:
        try:
            _stop(switch, owner, before)
        except BaseException:  # an interrupt, which does not strike twice
            _stop(switch, owner, before)
            raise


@contextlib.contextmanager
def unwatched() -> Generator[None, None, None]:
    """Tell nobody of the frames of this thread: what runs is no part of a program."""
    switch = _here.switch
    if switch is None:
        yield
        return
    try:
        switch(False)
        yield
    finally:
        switch(True)


Switch = Callable[[bool], None]
"""Begins and ends watching, any number of times."""


class _Here(threading.local):
    """The watching of this thread, if it is watched."""

    switch: Switch | None = None


_here = _Here()
_numbers = itertools.count(1)


def _stop(switch: Switch | None, owner: str, before: Switch | None) -> None:
    if switch is not before and switch is not None:
        switch(False)
    _here.switch = before
    for tool in _TOOLS:
        if _monitoring.get_tool(tool) == owner:
            for event in _watched_events():
                _monitoring.register_callback(tool, event, None)
            _monitoring.free_tool_id(tool)


def _free_tool(owner: str) -> int | None:
    """Take a tool of `sys.monitoring` that no other thread and no debugger has."""
    for tool in _TOOLS:
        with contextlib.suppress(ValueError):
            _monitoring.use_tool_id(tool, owner)
            return tool
    return None


def _watched_events() -> tuple[int, int, int]:
    events = _monitoring.events
    return events.PY_START, events.PY_RETURN, events.PY_UNWIND


def report_again() -> None:
    """Report functions again that were of no interest until now."""
    if _monitoring is not None:
        _monitoring.restart_events()


def _profiled(watcher: Watcher) -> Switch:
    known, learn = watcher.kinds.known, watcher.kinds.learn
    expects, stack, always = watcher.expects, watcher.stack, watcher.always
    quiet = watcher.was_quiet
    top: types.FrameType | None = None  # the frame of the last entry of the stack

    def profile(frame: types.FrameType, event: str, value: Any) -> None:
        nonlocal top
        try:  # most events are calls of builtins, and of functions of no interest
            if event == "call":
                try:
                    kind = known[id(frame.f_code)]
                except KeyError:
                    kind = learn(frame.f_code)
                if kind is None or watcher.error is not None:
                    return
                key = id(frame.f_code)
                expected = stack[-1].expected
                if expected is None:
                    if not expects(kind):
                        return
                elif key not in expected and key not in always:
                    if type(kind) is Own:
                        quiet(kind)
                    return
                watcher.begin(frame, kind)
                top = stack[-1].frame
            elif event == "return" and frame is top and not watcher.error:
                watcher.end(frame, value)
                top = stack[-1].frame
        except Exception as error:  # it must not reach the user's function
            watcher.error = error

    before = sys.getprofile()

    def switch(is_on: bool) -> None:
        nonlocal top
        if is_on:
            top = stack[-1].frame
            sys.setprofile(profile)
        elif before is None or callable(before):
            sys.setprofile(before)
        else:  # cProfile, which is no function
            before.enable()

    return switch


def _monitored(watcher: Watcher, tool: int, owner: str) -> Switch:
    disable = _monitoring.DISABLE
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

    for event, callback in zip(_watched_events(), (begins, ends, unwinds)):
        _monitoring.register_callback(tool, event, callback)

    def switch(is_on: bool) -> None:
        if _monitoring.get_tool(tool) == owner:  # it may have been given back
            _monitoring.set_events(tool, sum(_watched_events()) if is_on else 0)

    _monitoring.restart_events()
    return switch
