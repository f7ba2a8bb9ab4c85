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
import itertools
import sys
import types
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Any

from untrace import jaxapi
from untrace.progress import tick
from untrace.recovery import bytecode, held
from untrace.recovery.argument_names import name_arguments
from untrace.recovery.around import (
    callers,
    enters_context,
    inner_target,
    is_users,
    locate,
)
from untrace.recovery.entries import Entry
from untrace.recovery.functions import given_arguments, innermost, running
from untrace.recovery.kinds import (
    BIND,
    Kinds,
    Own,
    Reader,
    Readers,
    parameter_names,
)
from untrace.recovery.passed import PassedFunctions, give_arrays, is_same
from untrace.recovery.record import (
    RETURNED,
    Bind,
    Body,
    Call,
    Place,
    Span,
    Target,
    is_library,
)
from untrace.recovery.shared_parts import shared_arrays
from untrace.recovery.snapshots import Snapshots
from untrace.recovery.targets import element_names
from untrace.recovery.unflattening import add_conversions, add_results
from untrace.recovery.watching import report_again, watching


class Recorder:
    """Records one run of a function.

    Args:
      readers: Returns how to read a call from a frame, by the `id` of its code.
      expand: Transformations whose calls inside other transformations are recorded.
      is_short: Whether the run is a single function's, all of which counts.

    Attributes:
      kinds: What the code objects are that have run.
      stack: The frames that are being recorded, the innermost one last.
      snapshots: Copies what may change, once for as long as it does not.
      always: The derivative rules that may run at any time, by the `id` of their code.
      error: What went wrong while recording, if something did; the trace goes on.
    """

    def __init__(
        self,
        readers: Readers,
        expand: frozenset[str] = frozenset(),
        is_short: bool = False,
    ) -> None:
        self._is_short = is_short
        self.kinds = Kinds(readers)
        self._passed = PassedFunctions(expand)
        self.always = self._passed.rule_codes
        self._binds = self.kinds.binds
        self.snapshots = Snapshots()
        self._log: list[Bind] = []
        self.stack: list[Entry] = []
        self._n_idle = 0
        self._n_elements: Counter[Place] = Counter()
        self.error: Exception | None = None

    @contextlib.contextmanager
    def recording(self, body: Body) -> Generator[None, None, None]:
        """Record all calls below the caller's frame into `body`."""
        frame = sys._getframe(2)  # below `contextmanager`'s own frame
        body.setting = jaxapi.current_setting()
        entry = Entry(frame, frame.f_code, None, body, None)
        entry.trace = jaxapi.current_trace()
        self.stack.append(entry)
        noting = jaxapi.noting_batches(body.batches)
        with jaxapi.without_trace_caches(), noting, watching(self):
            yield
        self.stack.clear()  # the frame that it starts in holds the recorder

    @contextlib.contextmanager
    def preparing(self, body: Body) -> Generator[None, None, None]:
        """Record what is bound while the arguments of the function are put together."""
        (root,) = self.stack
        call = Call(None, (), {}, None)
        self.stack.append(Entry(root.frame, root.code, call, None, self._binds))
        try:
            yield
            axes = jaxapi.current_axes()
            made = Span(root.trace, self._log, 0, len(self._log), axes)
            try:
                add_conversions(body, made)
            except Exception as error:  # it runs code of classes
                self.error = error
        finally:
            del self.stack[1:]

    # ---- what the watcher asks -----------------------------------------------------

    def expects(self, kind: Any) -> bool:
        """Whether a frame counts that begins in a function that is recorded."""
        if type(kind) is Own and kind.waits and self.stack[-1].is_waiting:
            self.was_quiet(kind)
            return False  # `_enter_late` finds it, if JAX is called in it
        return kind is not BIND

    def was_quiet(self, own: Own) -> None:
        """Take note of a run that led to nothing; do not watch what always does.

        The end of a frame that is being recorded has to be reported, and derivative
        rules are called by JAX, whose frames nobody looks at.
        """
        is_rule = id(own.code) in self.always
        is_running = any(entry.code is own.code for entry in self.stack)
        if own.was_quiet() and not is_rule and not is_running:
            self.kinds.stop_watching(own)

    def begin(self, frame: types.FrameType, kind: Any) -> None:
        """Take note of a frame that begins."""
        top = self.stack[-1]
        if top.call is not None:
            if not top.is_waiting:
                self._begin_inside(frame, kind, top)
                return
            if not self._enter_leaf_late(frame, top):
                return
        elif top.is_waiting or frame.f_back is not top.frame:
            self._enter_late(frame, top)
        if type(kind) is Own:
            self._begin_own(frame, kind)
        else:
            called = kind(frame)
            if called is None:
                return
            is_tree = jaxapi.is_tree_function(called.function)
            if is_tree and _takes_iterator(called):
                return  # the user's code runs in it, and it computes nothing
            if self._n_idle and not is_tree:
                self._wake()
            self._enter_call(frame, called, is_tree)

    def end(self, frame: types.FrameType, value: Any) -> None:
        """Take note of a frame that returns."""
        entry = self.stack[-1]
        if entry.frame is not frame or len(self.stack) == 1:
            return
        self.stack.pop()
        if entry.leave is not None:
            entry.leave()
        bind = entry.bind
        if bind is not None:
            if value is not None:  # it did not raise
                several = bind.primitive.multiple_results
                bind.results = tuple(value) if several else (value,)
                self._log.append(bind)
                tick()
            return
        self.stack[-1].seen = len(self._log)
        if entry.own is not None:
            body = entry.body
            if entry.is_idle:
                self._n_idle -= 1
                entry.own.was_idle()
            if not (body and body.calls) and not held.has_array(value):
                if entry.is_idle:
                    self.was_quiet(entry.own)
                return
            entry.own.led_to_something()
            if body is None:
                body = entry.body = Body(None, entry.code, {})
            body.wrapped = held.wrapped(frame)
            entry.call = Call(None, (), {}, None, bodies=[body])
            if entry.is_idle:
                self._end_idle(entry.call, body, entry, value)
                return
        self._end_run(entry, value)

    def _end_idle(self, call: Call, body: Body, entry: Entry, value: Any) -> None:
        """Keep what a run returned that did not call JAX; a copy, if that has a name.

        Its variables are not copied: they only name what they hold, and often are large.
        """
        self._finish(call, entry)
        named = call.target is not None
        call.result = body.result = self.snapshots.take(value) if named else value
        body.locals, body.integers = held.variables(entry.frame, None)
        body.is_finished = True

    def _end_run(self, entry: Entry, value: Any) -> None:
        value = self.snapshots.take(value[0] if entry.is_first and value else value)
        for one in (entry.around, entry.body):
            if one is not None:
                one.result = value
                one.is_finished = True
        if entry.around is not None and entry.call is not None:
            entry.around.calls.append(entry.call)
        if entry.body is not None and (entry.body.calls or not entry.is_tree):
            # Those of a library only name what they hold, and often are large.
            snapshots = None if is_library(entry.code) else self.snapshots
            found = held.variables(entry.frame, snapshots)
            entry.body.locals, entry.body.integers = found
        if entry.call is not None:
            entry.call.result = value
            if entry.is_tree:
                self._end_map(entry.call, entry)
            self._finish(entry.call, entry)
            if entry.own is None:
                give_arrays(entry.call)
            if entry.own is None and self.stack[-1].body is not None:
                self.stack[-1].body.calls += add_results(entry.call)

    def _end_map(self, call: Call, entry: Entry) -> None:
        """Learn whether functions that were mapped over a tree call JAX."""
        is_idle = not any(body.calls for body in call.bodies)
        if is_idle and call.is_partial:
            return  # that was known
        for key in entry.mapped or ():
            own = self.kinds.own(key)
            if own is not None:
                own.was_mapped(is_idle=is_idle)

    def _finish(self, call: Call, entry: Entry) -> None:
        """Add a call to those of the function that made it."""
        call.span = Span(
            entry.trace, self._log, entry.start, len(self._log), entry.axes
        )
        parent = self.stack[-1]
        back, near = callers(entry.frame, parent.frame)
        call.place, call.turn = locate(back, parent.frame)
        call.setting = entry.setting or jaxapi.current_setting()
        body = parent.body
        if body is None and parent.own is not None:
            body = parent.body = Body(None, parent.code, {})
        if body is None:
            return
        call.is_apart = parent.trace is not entry.trace
        if back is parent.frame:
            between = None if near is back else near
            self._read_site(call, entry, parent.frame, body, between)
            if between is not None:
                self._read_inner_site(call, between, parent.frame)
        else:
            names = element_names(back, parent.frame)
            call.target = self._element(names, call)
            if back is not None and is_users(back.f_code):
                site = bytecode.site(back.f_code, back.f_lasti)
                between = None if near is back else near
                self._read_arguments(call, entry, site, back, body, between)
        body.calls.append(call)

    def _read_site(
        self,
        call: Call,
        entry: Entry,
        frame: types.FrameType,
        body: Body,
        near: types.FrameType | None,
    ) -> None:
        """Read how the code around a call takes its result and names its arguments."""
        site = bytecode.site(frame.f_code, frame.f_lasti)
        if site.target == RETURNED:
            call.returns = True
        else:
            call.target = site.target or self._element(site.elements, call)
            if type(call.target) is type(call.result) is tuple:
                body.shared |= shared_arrays([call.result])
        self._read_arguments(call, entry, site, frame, body, near)

    def _read_arguments(
        self,
        call: Call,
        entry: Entry,
        site: bytecode.Site,
        frame: types.FrameType,
        body: Body,
        near: types.FrameType | None,
    ) -> None:
        """Read how the code around a call, perhaps a comprehension, names its arguments."""
        call.spelling = site.spelling
        if entry.is_idle:  # nothing that it was given is written
            return
        if entry.is_tree and site.is_library:
            return
        name_arguments(call, site, frame, body, self.snapshots, near)

    def _read_inner_site(
        self, call: Call, near: types.FrameType, frame: types.FrameType
    ) -> None:
        """Read how a call is written in code between the program and JAX."""
        call.spelling = bytecode.site(near.f_code, near.f_lasti).spelling
        is_inner, target = inner_target(near, frame)
        if is_inner:
            call.target, call.returns = target, False

    def _element(self, names: tuple[Target, ...], call: Call) -> Target:
        """Return the name of an element of what is unpacked: they are made in order."""
        if not names or call.place is None:
            return None
        n_made = self._n_elements[call.place]
        self._n_elements[call.place] += 1
        return names[n_made % len(names)]

    # ---- frames that begin ---------------------------------------------------------

    def _begin_own(self, frame: types.FrameType, own: Own) -> None:
        """Note the frame of a function that is the user's or a framework's."""
        entry = Entry(frame, own.code, None, None, None)
        entry.own = own
        entry.trace, entry.start = jaxapi.current_trace(), len(self._log)
        entry.axes, entry.is_idle = jaxapi.current_axes(), own.is_library
        self._n_idle += own.is_library
        self.stack.append(entry)
        entry.is_waiting = own.waits and not self._is_short
        if not entry.is_waiting:
            entry.setting = jaxapi.current_setting()
            self._look_at(entry, own)

    def _enter_late(self, frame: types.FrameType, top: Entry) -> None:
        """Note the frames that were left out between a frame and the innermost one noted.

        Functions of libraries that other such functions call, or that led to nothing
        before, count only if something that does is called in them.
        """
        left_out: list[tuple[types.FrameType, Own]] = []
        back = frame.f_back
        while back is not None and back is not top.frame:
            own = self.kinds.own(id(back.f_code))
            if own is not None:
                left_out.append((back, own))
            back = back.f_back
        if back is not None and left_out:
            self._watch_again([id(own.code) for _, own in left_out])
            for inner, own in reversed(left_out):
                self._begin_own(inner, own)

    def _watch_again(self, keys: Iterable[int]) -> None:
        """Watch functions that led to nothing until now."""
        if any([self.kinds.watch_again(key) for key in keys]):
            report_again()

    def _look_at(self, entry: Entry, own: Own) -> None:
        """Look at what a function was given."""
        frame = entry.frame
        body = self._body(frame, None, own.parameters, own.number_defaults(frame))
        body.defined = own.defined
        body.shared = shared_arrays(body.parameters.values())
        body.free, body.space = held.free(frame), frame.f_globals
        body.setting = entry.setting
        if entry.body is not None:  # it called functions that did nothing
            body.calls = entry.body.calls
        entry.body = body

    def _wake(self) -> None:
        """Look at what the functions were given in which JAX is called now."""
        self._n_idle = 0
        setting = jaxapi.current_setting()
        for entry in self.stack:
            if entry.own is None or not entry.is_idle:
                continue
            entry.is_idle = False
            entry.own.was_busy()
            if entry.is_waiting:
                entry.is_waiting, entry.setting = False, setting
                self._look_at(entry, entry.own)

    def _begin_inside(self, frame: types.FrameType, kind: Any, top: Entry) -> None:
        """Record what an opaque call binds, and runs of functions passed to it."""
        code = frame.f_code
        if kind is BIND:
            entry = Entry(frame, code, top.call, None, top.expected)
            entry.bind = Bind(*jaxapi.read_bind(frame), len(self._log))
            entry.start, entry.trace = entry.bind.first, top.trace
            self.stack.append(entry)
            return
        assert top.expected is not None
        found = top.expected.get(id(code))
        if type(found) is list:
            assert top.call is not None
            self._begin_opened(frame, kind, top.call, found)
            return
        # Rules may have the code of what they are of: a decorator's.
        rules = self.always.get(id(code), {})
        passed = found if type(found) is tuple else (found,) if found else ()
        function = running(frame, [*rules, *passed])
        call = top.call if function in passed else rules[function]
        assert call is not None
        if type(kind) is Own:
            names, defaults = kind.parameters, kind.number_defaults(frame)
        else:
            names, defaults = parameter_names(code), {}
        body = self._body(frame, function, names, defaults)
        call.bodies.append(body)
        if top.is_tree:
            self._enter_leaf(frame, body, top)
            return
        entry = self._enter(frame, None, body, None)
        is_decorated = enters_context(frame)  # the setting is a part of what it does
        body.setting = top.setting if is_decorated else entry.setting
        if entry.trace is not top.trace:
            first = max(top.start, top.seen)
            before = Span(entry.trace, self._log, first, entry.start, entry.axes)
            add_conversions(body, before, call.function)

    def _enter_leaf(self, frame: types.FrameType, body: Body, top: Entry) -> None:
        """Note the frame of a function that is mapped over a tree: nothing has changed."""
        entry = Entry(frame, frame.f_code, None, body, None)
        entry.is_tree, entry.start = True, len(self._log)
        entry.trace, entry.axes = top.trace, top.axes
        body.setting = entry.setting = top.setting
        self.stack.append(entry)

    def _enter_leaf_late(self, frame: types.FrameType, top: Entry) -> bool:
        """Note the run of a function that is mapped over a tree, if a frame is inside one.

        Those of a function that has never called JAX are left out before.
        """
        mapped, back = top.mapped or {}, frame.f_back
        while back is not top.frame and back is not None:
            key = id(back.f_code)
            if key in mapped:
                top.expected, top.is_waiting = {**mapped, **self._binds}, False
                self._watch_again(mapped)
                kind = self.kinds.known.get(key)
                self._begin_inside(back, kind, top)
                self._enter_late(frame, self.stack[-1])
                return True
            back = back.f_back
        return False

    def _body(
        self,
        frame: types.FrameType,
        function: Any,
        names: tuple[str, ...],
        defaults: Mapping[str, float],
    ) -> Body:
        parameters = held.parameters(frame, names, self.snapshots)
        return Body(function, frame.f_code, parameters, defaults=defaults)

    def _enter(
        self,
        frame: types.FrameType,
        call: Call | None,
        body: Body | None,
        expected: Mapping[int, Any] | None,
    ) -> Entry:
        entry = Entry(frame, frame.f_code, call, body, expected)
        entry.trace, entry.start = jaxapi.current_trace(), len(self._log)
        entry.axes, entry.setting = jaxapi.current_axes(), jaxapi.current_setting()
        self.stack.append(entry)
        return entry

    def _begin_opened(
        self, frame: types.FrameType, reader: Reader, around: Call, wrappers: list[Any]
    ) -> None:
        """Record the call of a transformation that another one was applied to."""
        called = reader(frame)
        wrapper = next((w for w in wrappers if is_same(w, called.function)), None)
        plain = innermost(wrapper)
        if wrapper is None or plain is None:
            return
        entry = self._enter_call(frame, called)
        assert entry.call is not None
        given = given_arguments(wrapper, called.args, called.kwargs)
        body = Body(wrapper, plain.__code__, given, opened=entry.call)
        around.bodies.append(body)
        entry.around = body

    def _enter_call(
        self, frame: types.FrameType, called: jaxapi.Called, is_tree: bool = False
    ) -> Entry:
        take = self.snapshots.take
        args = tuple(map(take, called.args))
        kwargs = {key: take(value) for key, value in called.kwargs.items()}
        call = Call(called.function, args, kwargs, None, is_eager=jaxapi.is_eager())
        n_rules = len(self.always)
        codes = self._passed.watched(called, call, is_tree)
        if len(self.always) > n_rules:
            self._watch_again(self.always)
        entry = self._enter(frame, call, None, self._binds)
        entry.is_first, entry.is_tree = called.is_first, is_tree
        if codes:
            self._expect(codes, entry, call)
        elif jaxapi.runs_jax_alone(called.function):
            entry.leave = jaxapi.use_trace_caches()
        return entry

    def _expect(self, codes: Mapping[int, Any], entry: Entry, call: Call) -> None:
        """Watch for runs of the functions that a call was given."""
        if entry.is_tree:
            entry.mapped = codes
            owns = map(self.kinds.own, codes)
            if all(own is not None and own.is_idle_map for own in owns):
                entry.expected, entry.is_waiting, call.is_partial = None, True, True
                return
        self._watch_again(codes)
        entry.expected = {**codes, **self._binds}


def _takes_iterator(called: jaxapi.Called) -> bool:
    """Whether a function is given a generator or the like: `unflatten(treedef, map(f, leaves))`."""
    given = itertools.chain(called.args, called.kwargs.values())
    return any(isinstance(value, Iterator) for value in given)
