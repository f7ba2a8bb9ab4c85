"""Which run of a function shows what it does: in a call, or in an earlier one."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from untrace import jaxapi
from untrace.lifting.recorded.functions.function_values import bound, is_run_of
from untrace.lifting.recorded.functions.traced_before import TracedBefore
from untrace.lifting.recorded.naming.values import arrays_in
from untrace.lifting.recorded.plan import Plan
from untrace.recovery.defaults import all_defaults
from untrace.recovery.functions import innermost, peel, starred
from untrace.recovery.record import Body, Call
from untrace.recovery.snapshots import is_copy


class Runs:
    """The runs that were seen while a program is written."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._last: dict[Any, Body] = {}
        self._opened: dict[Any, Body] = {}
        self._all: dict[Any, Body] = {}
        # What was asked for last, which the writer of a call does several times.
        self._given: tuple[Any, Any, Body | None] = None, None, None

    def shown_by(self, item: Call) -> Sequence[Body]:
        """Return the runs that a call made, or would have made if JAX had not known it."""
        if item.bodies:
            return item.bodies
        if self._plan.before is None:
            self._plan.before = TracedBefore(self._plan.recording)
        return self._plan.before.runs(item)

    def last(self, function: Any, bodies: Sequence[Body]) -> Body | None:
        """Return the last run of a function, in this call or an earlier one."""
        runs = runs_of(function, list(self._with_closed(bodies)))
        plain = innermost(function)
        if runs and plain is not None:
            # JAX may run a function again meanwhile, as what its rules are made of.
            self._last[plain] = found = [
                r for r in runs if _has_statics_of(runs[0], r)
            ][-1]
            return found
        return self._last.get(plain)

    def anywhere(self, function: Any, bodies: Sequence[Body]) -> Body | None:
        """Return the last run, or one that is not written, as those of `jax.eval_shape`.

        JAX does not run a jitted function again that it has traced there.
        """
        found, plain = self.last(function, bodies), innermost(function)
        if found is not None or plain is None:
            return found
        if not self._all:
            self._all.update(_by_code(self._plan.recording))
        return self._all.get(plain.__code__)

    def given_to(self, made: jaxapi.Transformed, bodies: Sequence[Body]) -> Body | None:
        """Return a run that shows the arguments of a transformed function."""
        if self._given[0] is not made or self._given[1] is not bodies:
            self._given = made, bodies, self._found_given(made, bodies)
        return self._given[2]

    def _found_given(
        self, made: jaxapi.Transformed, bodies: Sequence[Body]
    ) -> Body | None:
        function: Any = made.function
        layer = peel(function)
        while layer is not None and layer.kind in ("transformed", "custom"):
            run = self.opened(function, bodies)
            if run is not None:
                return run
            function = layer.inner
            layer = peel(function)
        return self.anywhere(made.function, bodies)

    def opened(self, function: Any, bodies: Sequence[Body]) -> Body | None:
        """Return a run of a transformed function inside another transformation."""
        key = _identity(function)
        for run in bodies:
            if run.opened is not None and run.is_finished:
                self._opened[_identity(run.function)] = run
        return self._opened.get(key)

    def _with_closed(self, bodies: Sequence[Body]) -> Iterator[Body]:
        """Yield runs, and those inside calls that are not opened after all."""
        for run in bodies:
            yield run
            if run.opened is not None and run.opened in self._plan.closed:
                yield from self._with_closed(run.opened.bodies)


def _by_code(body: Body) -> dict[Any, Body]:
    """Return the last finished run of every function that was passed to a call."""
    found: dict[Any, Body] = {}
    for item in body.calls:
        for run in item.bodies:
            found.update(_by_code(run))
            if run.is_finished and run.opened is None and not item.is_own:
                found[run.code] = run
    return found


def runs_of(function: Any, bodies: Sequence[Body]) -> list[Body]:
    """Return the runs of a callable."""
    if not bodies or not callable(function) or isinstance(function, type):
        return []
    plain = innermost(function)
    if plain is None:
        return []
    runs = [
        b
        for b in bodies
        if b.code is plain.__code__ and b.is_finished and b.opened is None
        if _wrap_one_code(plain, b.function)
    ]
    own = [b for b in runs if b.function is plain]  # if others share the code
    exact = [b for b in own if _has_bound(function, b)]
    found = exact or [b for b in own if is_run_of(function, b)] or own or runs
    return [wrapped(plain, run) for run in found]


def _has_statics_of(first: Body, run: Body) -> bool:
    """Whether two runs of a function were given the same static arguments."""
    pairs = [(value, run.parameters.get(k)) for k, value in first.parameters.items()]
    return run is first or not any(_are_other_statics(*pair) for pair in pairs)


def _are_other_statics(value: Any, other: Any) -> bool:
    """Whether two arguments hold no arrays, and are known to be others."""
    if is_copy(value, other) or arrays_in((value, other)):
        return False
    try:
        return hash(value) != hash(other)
    except Exception:  # code of the user, or lists
        return False


def _wrap_one_code(first: types.FunctionType, other: Any) -> bool:
    """Whether functions of one code may be one: wrappers of others share theirs."""
    if not hasattr(first, "__wrapped__") or type(other) is not types.FunctionType:
        return True
    inner = [getattr(inspect.unwrap(one), "__code__", None) for one in (first, other)]
    return inner[0] is inner[1]


def wrapped(wrapper: types.FunctionType | None, run: Body) -> Body:
    """Return the run of what a wrapper only calls, `lambda *args, **kwargs: f(*args, **kwargs)`.

    It has names for what the wrapper is given. What is between, as a check of types, may
    hand the arguments on in any way.
    """
    plain = inspect.unwrap(wrapper) if starred(run.code) and wrapper else None
    if type(plain) is not types.FunctionType or run.code.co_argcount:
        return run
    args, kwargs = jaxapi.bound_arguments(run.code, run.parameters)
    given, inner = {**all_defaults(plain), **kwargs}, run
    while len(calls := [*filter(_does_something, inner.calls)]) == 1:
        (item,) = calls
        if not item.is_own or not is_copy(item.result, run.result):
            break
        (inner,) = item.bodies
        if inner.code is plain.__code__:
            return inner if _takes(inner, args, given) else run
    return run


def _does_something(item: Call) -> bool:
    """Whether a call is more than a check of what it is given."""
    return not item.is_own or any(run.calls for run in item.bodies)


def _takes(run: Body, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a run was given some arguments, and has a name for each."""
    if starred(run.code) or len(args) > run.code.co_argcount:
        return False
    held = {**kwargs, **dict(zip(run.code.co_varnames, args))}
    return run.parameters.keys() == held.keys() and all(
        is_copy(run.parameters[name], value) for name, value in held.items()
    )


def _has_bound(function: Any, run: Body) -> bool:
    """Whether a run was given the very objects that a callable has bound."""
    _, args, kwargs = bound(function)
    held = dict(zip(run.parameters, args)) | kwargs
    return all(run.parameters.get(name) is value for name, value in held.items())


def _identity(function: Any) -> Any:
    """Return what tells transformed functions apart: they are made anew every time."""
    made = function
    if not isinstance(made, jaxapi.Transformed):
        made = jaxapi.transformed(function)
    return id(function) if made is None else (made.maker, id(made.function))
