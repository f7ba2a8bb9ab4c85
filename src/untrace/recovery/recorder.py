"""Record the calls that a function makes while JAX traces it.

The recorder only watches: `sys.monitoring` (Python 3.12 and later) or `sys.setprofile`
report the frames of this thread that begin and end. A call of the public API is opaque;
below it only the functions that were passed to it are recorded, as its bodies. Calls of
other Python functions, the user's and the frameworks', are recorded with all they do.
"""

# `sys._getframe` is how monitoring callbacks find their frame.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jaxlib
import numpy as np

import untrace
from untrace import jaxapi
from untrace.recovery import bytecode
from untrace.recovery.formulas import formulas
from untrace.recovery.functions import given_arguments, innermost, rules
from untrace.recovery.numbers import named_arrays, named_numbers
from untrace.recovery.record import (
    RETURNED,
    Bind,
    Body,
    Call,
    Place,
    Span,
    is_library,
    snapshot,
)
from untrace.recovery.transformations import opened_layer

_TOOL = 4  # of the six that `sys.monitoring` has; debuggers and profilers use others
_OWN = object()
_BIND = object()
_Reader = Callable[[types.FrameType], Any]


@dataclass(slots=True)
class _Entry:
    """A frame that is being recorded."""

    frame: Any
    call: Call | None
    body: Body | None
    codes: Mapping[int, Any]
    runs: Any = None
    is_first: bool = False
    trace: Any = None
    axes: Any = None
    start: int = 0
    bound: jaxapi.Bound | None = None
    around: Body | None = None


class Recorder:
    """Records one run of a function.

    Args:
      readers: How to read a call from a frame, by the `id` of its code. (The hash of a
        code object is computed anew every time, from all of its parts.)
      expand: Transformations whose calls inside other transformations are recorded.

    Attributes:
      error: What went wrong while recording, if something did; the trace goes on.
    """

    def __init__(
        self,
        readers: Mapping[int, _Reader],
        expand: frozenset[str] = frozenset(),
    ) -> None:
        self._expand = expand
        self._alive: list[types.CodeType] = list(jaxapi.bind_codes())
        self._kinds: dict[int, Any] = dict(readers)
        self._kinds.update((id(code), _BIND) for code in self._alive)
        self._log: list[Bind] = []
        self._rule_codes: dict[int, tuple[Call, Any]] = {}
        self._stack: list[_Entry] = []
        self._thread = threading.get_ident()
        self.error: Exception | None = None

    @contextlib.contextmanager
    def recording(self, body: Body) -> Generator[None, None, None]:
        """Record all calls below the caller's frame into `body`."""
        caller = sys._getframe(2)  # below `contextmanager`'s own frame
        trace = jaxapi.current_trace()
        self._stack = [_Entry(caller, None, body, {}, trace=trace)]
        with jaxapi.without_trace_caches(), self._watching():
            yield

    def _kind(self, code: types.CodeType) -> Any:
        """Decide once what a code object is."""
        self._alive.append(code)
        kind = self._kinds[id(code)] = _classify(code)
        return kind

    # ---- events --------------------------------------------------------------------

    def begin(self, frame: types.FrameType) -> None:
        """Take note of a frame that begins."""
        code = frame.f_code
        top = self._stack[-1]
        if top.call is not None:
            self._begin_inside(frame, code, top)
            return
        kind = self._kinds.get(id(code), _OWN)
        if kind is _OWN:
            kind = self._kind(code)
        if kind is None or kind is _BIND:
            return
        if kind is _classify:
            self._begin_own(frame, code)
        else:
            self._begin_call(frame, kind)

    def end(self, frame: types.FrameType, value: Any) -> None:
        """Take note of a frame that returns."""
        entry = self._stack[-1]
        if entry.frame is not frame or len(self._stack) == 1:
            return
        self._stack.pop()
        if entry.bound is not None:
            if value is not None:  # it did not raise
                several = entry.bound.primitive.multiple_results
                results = tuple(value) if several else (value,)
                self._log.append(Bind(entry.bound, results, entry.start))
            return
        value = snapshot(value[0] if entry.is_first and value else value)
        if entry.around is not None and entry.call is not None:
            entry.around.calls.append(entry.call)
            entry.around.result = value
            entry.around.is_finished = True
        if entry.body is not None:
            entry.body.result = value
            entry.body.locals = _arrays(frame)
            entry.body.is_finished = True
        call = entry.call or entry.runs
        if call is not None:
            self._finish(call, entry, value)

    def _finish(self, call: Call, entry: _Entry, value: Any) -> None:
        call.result = value
        call.span = Span(
            entry.trace, self._log, entry.start, len(self._log), entry.axes
        )
        parent = self._stack[-1]
        if parent.body is None:
            return
        call.is_apart = parent.trace is not entry.trace
        if call.is_own and not call.bodies[0].calls and not _has_tracer(value):
            return
        if _is_direct(entry.frame, parent.frame):
            frame = parent.frame
            target = bytecode.target(frame.f_code, frame.f_lasti)
            if target == RETURNED:
                call.returns = True
            else:
                call.target = target
            call.spelling = bytecode.spelling(frame.f_code, frame.f_lasti)
            call.numbers = named_numbers(frame, _given(call))
            call.arrays = named_arrays(frame, _given(call))
            if not is_library(frame.f_code):
                call.formulas = formulas(frame, _given(call))
        parent.body.calls.append(call)

    def _begin_inside(
        self, frame: types.FrameType, code: types.CodeType, top: _Entry
    ) -> None:
        """Record what an opaque call binds, and runs of functions passed to it."""
        if self._kinds.get(id(code)) is _BIND:
            bound, start = jaxapi.read_bind(frame), len(self._log)
            entry = _Entry(frame, top.call, None, top.codes, start=start, bound=bound)
            self._stack.append(entry)
            return
        function = top.codes.get(id(code))
        call = top.call
        if function is None:
            if id(code) not in self._rule_codes:
                return
            call, function = self._rule_codes[id(code)]
        assert call is not None
        if type(function) is list:
            self._begin_opened(frame, call, function)
            return
        body = Body(function, code, _parameters(frame))
        call.bodies.append(body)
        self._enter(frame, None, body, {})

    def _enter(
        self,
        frame: types.FrameType,
        call: Call | None,
        body: Body | None,
        codes: Mapping[int, Any],
    ) -> _Entry:
        trace, start = jaxapi.current_trace(), len(self._log)
        entry = _Entry(frame, call, body, codes, trace=trace, start=start)
        entry.axes = jaxapi.current_axes()
        self._stack.append(entry)
        return entry

    def _begin_own(self, frame: types.FrameType, code: types.CodeType) -> None:
        body = Body(None, code, _parameters(frame), wrapped=_wrapped(frame))
        call = Call(None, (), {}, _place(frame))
        call.bodies.append(body)
        self._enter(frame, None, body, {}).runs = call

    def _begin_call(self, frame: types.FrameType, reader: _Reader) -> None:
        called = reader(frame)
        if called is not None:
            self._enter_call(frame, called)

    def _begin_opened(
        self, frame: types.FrameType, around: Call, wrappers: list[Any]
    ) -> None:
        """Record the call of a transformation that another one was applied to."""
        called = self._kinds[id(frame.f_code)](frame)
        wrapper = next((w for w in wrappers if _is_same(w, called.function)), None)
        plain = innermost(wrapper)
        if wrapper is None or plain is None:
            return
        entry = self._enter_call(frame, called)
        assert entry.call is not None
        given = given_arguments(wrapper, called.args, called.kwargs)
        body = Body(wrapper, plain.__code__, given, opened=entry.call)
        around.bodies.append(body)
        entry.around = body

    def _enter_call(self, frame: types.FrameType, called: jaxapi.Called) -> _Entry:
        function = called.function
        call = Call(
            function,
            tuple([snapshot(arg) for arg in called.args]),
            {key: snapshot(value) for key, value in called.kwargs.items()},
            _place(frame),
        )
        passed = [function, *_callables(called.args), *_callables(called.kwargs)]
        codes: dict[int, Any] = {}
        for position, item in enumerate(passed):
            wrapper = opened_layer(item, self._expand, skipped=not position)
            code = jaxapi.wrapper_code(wrapper) if wrapper is not None else None
            if code is not None:
                codes.setdefault(id(code), []).append(wrapper)
            inner = innermost(item)
            if inner is not None and not _is_inside_jax(inner.__code__):
                codes[id(inner.__code__)] = inner
            for rule in rules(item):
                plain = innermost(rule) if rule is not None else None
                if plain is not None and not _is_inside_jax(plain.__code__):
                    self._rule_codes[id(plain.__code__)] = call, plain
        entry = self._enter(frame, call, None, codes)
        entry.is_first = called.is_first
        return entry

    # ---- watching ------------------------------------------------------------------

    @contextlib.contextmanager
    def _watching(self) -> Generator[None, None, None]:
        monitoring = getattr(sys, "monitoring", None)
        if monitoring is not None and monitoring.get_tool(_TOOL) is None:
            with self._monitored(monitoring):
                yield
            return
        before = sys.getprofile()
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _profile(self, frame: types.FrameType, event: str, value: Any) -> None:
        if event == "call":
            self._begin(frame)
        elif event == "return":
            self._end(frame, value)

    def _begin(self, frame: types.FrameType) -> None:
        if self.error is None:
            try:
                self.begin(frame)
            except Exception as error:  # it must not reach the user's function
                self.error = error

    def _end(self, frame: types.FrameType, value: Any) -> None:
        if self.error is None:
            try:
                self.end(frame, value)
            except Exception as error:  # as above
                self.error = error

    @contextlib.contextmanager
    def _monitored(self, monitoring: Any) -> Generator[None, None, None]:
        events = monitoring.events

        def begins(code: types.CodeType, offset: int) -> Any:
            kind = self._kinds.get(id(code), _OWN)
            if kind is _OWN:
                kind = self._kind(code)
            if kind is None:
                return monitoring.DISABLE
            if threading.get_ident() == self._thread:
                self._begin(sys._getframe(1))
            return None

        def ends(code: types.CodeType, offset: int, value: Any) -> Any:
            if self._kinds.get(id(code)) is None:
                return monitoring.DISABLE
            if threading.get_ident() == self._thread:
                self._end(sys._getframe(1), value)
            return None

        def unwinds(code: types.CodeType, offset: int, error: Any) -> Any:
            if threading.get_ident() == self._thread:
                self._end(sys._getframe(1), None)
            return None

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


def _parameters(frame: types.FrameType) -> dict[str, Any]:
    """Return what the parameters of a frame that begins hold."""
    code = frame.f_code
    n = code.co_argcount + code.co_kwonlyargcount
    n += bool(code.co_flags & inspect.CO_VARARGS)
    n += bool(code.co_flags & inspect.CO_VARKEYWORDS)
    values = frame.f_locals
    return {
        name: snapshot(values[name]) for name in code.co_varnames[:n] if name in values
    }


def _wrapped(frame: types.FrameType) -> types.FunctionType | None:
    """Return the only function in the closure of a library's frame that begins."""
    code = frame.f_code
    if not code.co_freevars or not is_library(code):
        return None
    values = frame.f_locals
    held = [values.get(name) for name in code.co_freevars]
    functions = [value for value in held if isinstance(value, types.FunctionType)]
    return functions[0] if len(functions) == 1 else None


def _arrays(frame: types.FrameType) -> dict[str, Any]:
    """Return the local variables of a frame that ends which may hold arrays."""
    return {
        name: snapshot(value)
        for name, value in frame.f_locals.items()
        if not isinstance(value, _NO_ARRAYS) and not name.startswith(("_", "."))
    }


_NO_ARRAYS = (
    bool,
    int,
    float,
    str,
    bytes,
    type,
    type(None),
    types.FunctionType,
    types.ModuleType,
)


def _place(frame: types.FrameType) -> Place | None:
    back = frame.f_back
    while back is not None and jaxapi.is_wrapper(back.f_code):
        back = back.f_back
    if back is None:
        return None
    return Place(back.f_code.co_filename, back.f_lineno, back.f_lasti)


def _is_direct(frame: types.FrameType, parent: types.FrameType) -> bool:
    """Tell whether `parent` itself made the call that runs in `frame`."""
    back = frame.f_back
    while back is not None and back is not parent and jaxapi.is_wrapper(back.f_code):
        back = back.f_back
    return back is parent


def _callables(values: Any) -> Iterator[Any]:
    """Yield the callables among arguments, and in the containers among them."""
    for value in values.values() if isinstance(values, dict) else values:
        if type(value) in (tuple, list, dict):
            yield from _callables(value)
        elif callable(value) and not isinstance(
            value, (type, jaxapi.Tracer, jax.Array)
        ):
            yield value


def _is_same(wrapper: Any, called: Any) -> bool:
    """Tell whether a call that a frame shows is of what a transformation made."""
    made = jaxapi.transformed(wrapper)
    if made is None:
        return wrapper is called
    return made.maker == called.maker and made.function is called.function


def _has_tracer(value: Any) -> bool:
    return any(
        isinstance(leaf, (jaxapi.Tracer, np.ndarray)) for leaf in jax.tree.leaves(value)
    )


def _given(call: Call) -> list[Any]:
    """List what a call was given."""
    if call.is_own:
        return list(call.bodies[0].parameters.values())
    return [*call.args, *call.kwargs.values()]


# ---- which functions ---------------------------------------------------------------


def _classify(code: types.CodeType) -> Any:
    """Return `_classify` itself for functions of users and frameworks, else None."""
    flags = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    if code.co_flags & flags:
        return None
    if code.co_name.startswith("<") and code.co_name != "<lambda>":
        return None
    return None if _is_ignored(code.co_filename) else _classify


def _is_inside_jax(code: types.CodeType) -> bool:
    return code.co_filename.startswith(_jax_folders())


@functools.lru_cache(maxsize=4096)
def _is_ignored(filename: str) -> bool:
    """Tell whether a file belongs to Python, NumPy, JAX or this package."""
    if filename.startswith("<"):
        return not filename.startswith(_TYPED)
    if filename.startswith(_own_folders()):
        return True
    return filename.startswith(_python_folder()) and not _PACKAGES.search(filename)


_TYPED = ("<ipython", "<stdin>", "<doctest", "<untrace")
_PACKAGES = re.compile(r"[\\/](site|dist)-packages[\\/]")


@functools.cache
def _jax_folders() -> tuple[str, ...]:
    return _folder(jax), _folder(jaxlib)


@functools.cache
def _own_folders() -> tuple[str, ...]:
    return *_jax_folders(), _folder(np), _folder(untrace)


def _folder(module: types.ModuleType) -> str:
    return os.path.dirname(str(module.__file__)) + os.sep


@functools.cache
def _python_folder() -> str:
    return sysconfig.get_paths()["stdlib"] + os.sep
