"""Record the calls that a function makes while JAX traces it.

The recorder only watches: `sys.monitoring` (Python 3.12 and later) or `sys.setprofile`
report the frames of this thread that begin and end. A call of the public API is opaque;
below it only the functions that were passed to it are recorded, as its bodies. Calls of
other Python functions, the user's and the frameworks', are recorded with all they do.
"""

# `sys._getframe` is how the recorder finds the frame that it starts in.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import contextlib
import inspect
import sys
import types
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from untrace import jaxapi
from untrace.recovery import bytecode
from untrace.recovery.classifying import is_inside_jax, is_recorded
from untrace.recovery.defaults import float_defaults
from untrace.recovery.formulas import formulas
from untrace.recovery.functions import given_arguments, innermost, rules
from untrace.recovery.looping import turn_of
from untrace.recovery.numbers import (
    named_arrays,
    named_containers,
    number_names,
    only_names,
)
from untrace.recovery.record import (
    RETURNED,
    Bind,
    Body,
    Call,
    Place,
    Span,
    Target,
    Turn,
    is_library,
)
from untrace.recovery.snapshots import CONTAINERS, Snapshots
from untrace.recovery.targets import element_names
from untrace.recovery.transformations import opened_layer
from untrace.recovery.watching import watching

_BIND = object()
_Reader = Callable[[types.FrameType], Any]
Readers = Callable[[], Mapping[int, _Reader]]
"""Returns how to read a call from a frame, by the `id` of the frame's code."""


class _Own(NamedTuple):
    """A function of the user or of a framework, with the names of its parameters."""

    parameters: tuple[str, ...]


class _Passed(NamedTuple):
    """What a callable that is given to an opaque call makes to be watched there.

    Attributes:
      code: Where the wrapper of a transformation runs that is to be opened.
      wrapper: The wrapper.
      inner: The function inside, if it is not one of JAX's.
      rules: Its derivative rules.
    """

    code: types.CodeType | None
    wrapper: Any
    inner: types.FunctionType | None
    rules: tuple[types.FunctionType, ...]


@dataclass(slots=True)
class _Entry:
    """A frame that is being recorded."""

    frame: Any
    code: types.CodeType
    call: Call | None
    body: Body | None
    codes: Mapping[int, Any]
    is_run: bool = False
    is_first: bool = False
    trace: Any = None
    axes: Any = None
    start: int = 0
    bound: jaxapi.Bound | None = None
    around: Body | None = None
    setting: jaxapi.Setting = ()


class Recorder:
    """Records one run of a function.

    Args:
      readers: Returns how to read a call from a frame, by the `id` of its code. (The
        hash of a code object is computed anew every time, from all of its parts.)
      expand: Transformations whose calls inside other transformations are recorded.

    Attributes:
      error: What went wrong while recording, if something did; the trace goes on.
    """

    def __init__(
        self,
        readers: Readers,
        expand: frozenset[str] = frozenset(),
    ) -> None:
        self._expand = expand
        self._alive: list[Any] = list(jaxapi.bind_codes())
        self._readers, self._n_modules = readers, len(sys.modules)
        self._kinds: dict[int, Any] = dict(readers())
        self._kinds.update((id(code), _BIND) for code in self._alive)
        self._passed: dict[int, _Passed] = {}
        self._snapshot = Snapshots().take
        self._log: list[Bind] = []
        self._rule_codes: dict[int, tuple[Call, Any]] = {}
        self._stack: list[_Entry] = []
        self._defaults: dict[int, Mapping[str, float]] = {}
        self._n_elements: Counter[Place] = Counter()
        self.error: Exception | None = None

    @contextlib.contextmanager
    def recording(self, body: Body) -> Generator[None, None, None]:
        """Record all calls below the caller's frame into `body`."""
        caller = sys._getframe(2)  # below `contextmanager`'s own frame
        trace = jaxapi.current_trace()
        body.setting = jaxapi.current_setting()
        self._stack = [_Entry(caller, caller.f_code, None, body, {}, trace=trace)]
        with jaxapi.without_trace_caches(), watching(self):
            yield

    # ---- what the watcher asks -----------------------------------------------------

    def kind(self, code: types.CodeType) -> Any:
        """Decide once what a code object is; None if it is not recorded."""
        key = id(code)
        try:
            return self._kinds[key]
        except KeyError:
            self._alive.append(code)
            found = _Own(_parameter_names(code)) if is_recorded(code) else None
            self._kinds[key] = found
            if found is None and self._n_modules != len(sys.modules):
                self._read_again()
            return self._kinds[key]

    def _read_again(self) -> None:
        """Look for public functions that the program has imported since it began."""
        if not _is_importing():
            self._n_modules = len(sys.modules)
            self._kinds.update(self._readers())

    def expects(self, key: int, kind: Any) -> bool:
        """Tell whether a frame counts: inside an opaque call, most do not."""
        top = self._stack[-1]
        if top.call is not None:
            return kind is _BIND or key in top.codes or key in self._rule_codes
        return kind is not _BIND

    def ending(self) -> types.CodeType:
        """Return the code of the innermost frame that is recorded."""
        return self._stack[-1].code

    def begin(self, frame: types.FrameType, kind: Any) -> None:
        """Take note of a frame that begins."""
        top = self._stack[-1]
        if top.call is not None:
            self._begin_inside(frame, kind, top)
        elif type(kind) is _Own:
            body = Body(None, frame.f_code, self._parameters(frame, kind.parameters))
            body.defaults = self._float_defaults(frame)
            body.shared = _shared(body.parameters.values())
            body.free = _free(frame)
            self._enter(frame, None, body, {}).is_run = True
        else:
            called = kind(frame)
            if called is not None:
                self._enter_call(frame, called)

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
        body = entry.body
        if entry.is_run and body is not None:
            if not body.calls and not _has_array(value):
                return
            body.wrapped = _wrapped(frame)
            entry.call = Call(None, (), {}, None, bodies=[body])
        value = self._snapshot(value[0] if entry.is_first and value else value)
        for one in (entry.around, body):
            if one is not None:
                one.result = value
                one.is_finished = True
        if entry.around is not None and entry.call is not None:
            entry.around.calls.append(entry.call)
        if body is not None:
            body.locals = self._arrays(frame)
        if entry.call is not None:
            self._finish(entry.call, entry, value)

    def _finish(self, call: Call, entry: _Entry, value: Any) -> None:
        call.result = value
        call.span = Span(
            entry.trace, self._log, entry.start, len(self._log), entry.axes
        )
        parent = self._stack[-1]
        call.place, call.turn = _locate(entry.frame, parent.frame)
        call.setting = entry.setting
        if parent.body is None:
            return
        call.is_apart = parent.trace is not entry.trace
        if _is_direct(entry.frame, parent.frame):
            frame, given = parent.frame, _given(call)
            site = bytecode.site(parent.code, frame.f_lasti)
            if site.target == RETURNED:
                call.returns = True
            else:
                call.target = site.target or self._element(site.elements, call)
            call.spelling = site.spelling
            names = number_names(frame, given)
            call.numbers = only_names(names)
            call.arrays = named_arrays(frame, given, parent.body.shared)
            if not is_library(parent.code):
                call.held = frozenset(key for key, found in names.items() if found)
                call.formulas = formulas(frame, given)
                held = named_containers(frame, given)
                call.containers = tuple([(n, self._snapshot(v)) for n, v in held])
        else:
            names = element_names(_caller(entry.frame), parent.frame)
            call.target = self._element(names, call)
        parent.body.calls.append(call)

    def _element(self, names: tuple[Target, ...], call: Call) -> Target:
        """Return the name of an element of what is unpacked: they are made in order."""
        if not names or call.place is None:
            return None
        n_made = self._n_elements[call.place]
        self._n_elements[call.place] += 1
        return names[n_made % len(names)]

    def _begin_inside(self, frame: types.FrameType, kind: Any, top: _Entry) -> None:
        """Record what an opaque call binds, and runs of functions passed to it."""
        code = frame.f_code
        if kind is _BIND:
            bound, start = jaxapi.read_bind(frame), len(self._log)
            entry = _Entry(frame, code, top.call, None, top.codes, start=start)
            entry.bound = bound
            self._stack.append(entry)
            return
        function = top.codes.get(id(code))
        call = top.call
        if function is None:
            call, function = self._rule_codes[id(code)]
        assert call is not None
        if type(function) is list:
            self._begin_opened(frame, kind, call, function)
            return
        body = Body(function, code, self._parameters(frame, _parameter_names(code)))
        body.defaults = self._float_defaults(frame)
        call.bodies.append(body)
        self._enter(frame, None, body, {})
        if _enters_context(frame):
            body.setting = top.setting  # the setting is a part of what it does

    def _enter(
        self,
        frame: types.FrameType,
        call: Call | None,
        body: Body | None,
        codes: Mapping[int, Any],
    ) -> _Entry:
        entry = _Entry(frame, frame.f_code, call, body, codes)
        entry.trace, entry.start = jaxapi.current_trace(), len(self._log)
        entry.axes, entry.setting = jaxapi.current_axes(), jaxapi.current_setting()
        if body is not None:
            body.setting = entry.setting
        self._stack.append(entry)
        return entry

    def _begin_opened(
        self, frame: types.FrameType, reader: _Reader, around: Call, wrappers: list[Any]
    ) -> None:
        """Record the call of a transformation that another one was applied to."""
        called = reader(frame)
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
        function, args, kwargs = called.function, called.args, called.kwargs
        snapshot = self._snapshot
        call = Call(
            function,
            tuple(map(snapshot, args)),
            {key: snapshot(value) for key, value in kwargs.items()} if kwargs else {},
            None,
        )
        codes: dict[int, Any] = {}
        self._watch(self._known(function), call, codes)
        for item in (*_callables(args), *_callables(kwargs)):
            self._watch(self._examine(item, skipped=0), call, codes)
        entry = self._enter(frame, call, None, codes)
        entry.is_first = called.is_first
        return entry

    def _parameters(
        self, frame: types.FrameType, names: tuple[str, ...]
    ) -> dict[str, Any]:
        """Return what the parameters of a frame that begins hold."""
        if not names:
            return {}
        # Each look-up in `f_locals` would search all names; `items` goes over them once.
        values = dict(frame.f_locals.items())
        return {n: self._snapshot(values[n]) for n in names if n in values}

    def _float_defaults(self, frame: types.FrameType) -> Mapping[str, float]:
        """Return the floats that the user's function has as defaults."""
        code = frame.f_code
        known = self._defaults.get(id(code))
        if known is None:
            known = {} if is_library(code) else float_defaults(frame)
            self._defaults[id(code)] = known
        return known

    def _arrays(self, frame: types.FrameType) -> dict[str, Any]:
        """Return the local variables of a frame that ends which may hold arrays."""
        return {
            name: self._snapshot(value)
            for name, value in frame.f_locals.items()
            if not isinstance(value, _NO_ARRAYS) and not name.startswith(("_", "."))
        }

    def _watch(self, passed: _Passed, call: Call, codes: dict[int, Any]) -> None:
        """Watch for the functions inside what an opaque call was given."""
        if passed.code is not None:
            codes.setdefault(id(passed.code), []).append(passed.wrapper)
        if passed.inner is not None:
            codes[id(passed.inner.__code__)] = passed.inner
        for rule in passed.rules:
            self._rule_codes[id(rule.__code__)] = call, rule

    def _known(self, function: Any) -> _Passed:
        """Examine what is called; public functions are called again and again."""
        known = self._passed.get(id(function))
        if known is None:
            known = self._passed[id(function)] = self._examine(function, skipped=1)
            self._alive.append(function)
        return known

    def _examine(self, item: Any, skipped: int) -> _Passed:
        wrapper = opened_layer(item, self._expand, skipped) if self._expand else None
        code = jaxapi.wrapper_code(wrapper) if wrapper is not None else None
        inner = innermost(item)
        plain_rules = [innermost(rule) for rule in rules(item) if rule is not None]
        return _Passed(
            code,
            wrapper,
            None if inner is None or is_inside_jax(inner.__code__) else inner,
            tuple([r for r in plain_rules if r and not is_inside_jax(r.__code__)]),
        )


def _is_importing() -> bool:
    """Tell whether a module of JAX is being imported: it has not all of its names yet."""
    specs = [getattr(m, "__spec__", None) for m in list(sys.modules.values())]
    return any(
        spec.name.startswith("jax.") and getattr(spec, "_initializing", False)
        for spec in specs
        if spec is not None
    )


def _parameter_names(code: types.CodeType) -> tuple[str, ...]:
    n = code.co_argcount + code.co_kwonlyargcount
    n += bool(code.co_flags & inspect.CO_VARARGS)
    n += bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:n]


def _free(frame: types.FrameType) -> dict[str, Any]:
    """Return what the variables hold that a frame closes over."""
    names = frame.f_code.co_freevars
    if not names:
        return {}
    values = frame.f_locals
    return {name: values[name] for name in names if name in values}


def _wrapped(frame: types.FrameType) -> types.FunctionType | None:
    """Return the only function in the closure of a library's frame."""
    code = frame.f_code
    if not code.co_freevars or not is_library(code):
        return None
    values = frame.f_locals
    held = [values.get(name) for name in code.co_freevars]
    functions = [value for value in held if isinstance(value, types.FunctionType)]
    return functions[0] if len(functions) == 1 else None


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


def _locate(
    frame: types.FrameType, parent: types.FrameType | None
) -> tuple[Place | None, Turn]:
    """Return where a call was written, and in which turns of loops it was made."""
    back = _caller(frame)
    if back is None:
        return None, ()
    code, lasti = back.f_code, back.f_lasti
    loops, turn = turn_of(back, parent)
    loop = loops[0] if loops else None
    name, line = code.co_qualname, back.f_lineno
    return Place(code.co_filename, line, lasti, name, loop, len(loops)), turn


def _enters_context(frame: types.FrameType) -> bool:
    """Tell whether a decorator entered a context before a frame began."""
    back = frame.f_back
    return back is not None and back.f_code.co_filename in jaxapi.SCOPE_FILES


def _caller(frame: types.FrameType) -> types.FrameType | None:
    """Return the frame that called a function, behind those that only pass it on."""
    back = frame.f_back
    while back is not None and _passes_on(back.f_code):
        back = back.f_back
    return back


def _passes_on(code: types.CodeType) -> bool:
    """Tell whether a frame only passes a call on: JAX's, or a context as a decorator."""
    return code.co_filename in jaxapi.SCOPE_FILES or jaxapi.is_wrapper(code)


def _is_direct(frame: types.FrameType, parent: types.FrameType) -> bool:
    """Tell whether `parent` itself made the call that runs in `frame`."""
    back = frame.f_back
    while back is not None and back is not parent and _passes_on(back.f_code):
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


def _has_array(value: Any) -> bool:
    kind = type(value)
    if kind in CONTAINERS:  # the keys of a dict need no order, but JAX would sort them
        return any(map(_has_array, value.values() if kind is dict else value))
    if isinstance(value, _NO_ARRAYS):
        return False
    return any(
        isinstance(leaf, (jaxapi.Tracer, np.ndarray)) for leaf in jax.tree.leaves(value)
    )


def _shared(values: Iterable[Any]) -> frozenset[int]:
    """Return the `id` of the arrays that occur twice."""
    keys = [id(value) for value in values if isinstance(value, jaxapi.Tracer)]
    return frozenset([key for key in keys if keys.count(key) > 1])


def _given(call: Call) -> list[Any]:
    """List what a call was given."""
    if call.is_own:
        return list(call.bodies[0].parameters.values())
    return [*call.args, *call.kwargs.values()]
