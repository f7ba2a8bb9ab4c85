"""Functions that the user's functions are given: which are parameters, and their runs.

A function that is passed on stays a parameter of what it is passed to, so that this is
one function whatever it is given. Calls of the parameter are told by the code that ran,
by what that closes over and by the arguments that were bound before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.capture.origins import function_name
from untrace.lifting.recorded.naming.values import (
    arrays_in,
    has_array,
    is_array,
    is_plain,
)
from untrace.lifting.recorded.plan import Plan
from untrace.lifting.recorded.unwritable import Unwritable
from untrace.lifting.spelling.homes import public_name
from untrace.objects import closed_over
from untrace.recovery.classifying import is_recorded
from untrace.recovery.functions import function_key, innermost, is_function, peel
from untrace.recovery.record import Body, is_library, runs_inside


def is_passed(value: Any, hint: str, code: Any, plan: Plan) -> bool:
    """Whether a parameter takes a function: one of the user's, or a public one.

    Args:
      value: What the parameter held.
      hint: Its name.
      code: The code of the function that has it.
      plan: What is known of the program.
    """
    if not plan.passes_functions or not _is_known(value):
        return False
    return parameter_key(value, hint, code) not in plan.baked


def _is_known(value: Any) -> bool:
    if not is_function(value) and not isinstance(value, jaxapi.UFUNC):
        return False
    if has_array(value):  # as the maps of `jax.vjp` do
        return False
    if public_name(value) is not None:
        return True
    plain = innermost(value)
    return plain is not None and _is_users(plain.__code__)


def parameter_key(value: Any, hint: str, code: Any) -> tuple[int, str, int]:
    """Return what identifies that a parameter takes a function."""
    return id(code), hint, id(getattr(innermost(value), "__code__", value))


def _is_users(code: Any) -> bool:
    return is_recorded(code) and not is_library(code)


class Given:
    """The functions that a function sees as parameters: its own, and by its closure.

    What is a public function, or one that the program has a name for, is called by that
    name elsewhere, even if it is passed to a function around.

    Args:
      run: The run of the function; None if it sees none but its own.
    """

    def __init__(self, run: Body | None = None) -> None:
        self._run = run
        self._own: dict[Any, Any] = {}
        self._closure: dict[Any, Any] | None = None

    def add(self, function: Any) -> None:
        """Let a parameter take a function."""
        self._own[function_key(function)] = function

    def takes(self, value: Any) -> bool:
        """Whether one of its own parameters takes a value."""
        return any(value is function for function in self._own.values())

    def sees(self, function: Any, is_library: bool) -> bool:
        """Whether it may mean a parameter by a function, in code of a library."""
        if is_library and public_name(function) is not None:
            return False
        key = function_key(function)
        return key in self._own or key in self._held()

    def that_ran(self, run: Body) -> Iterator[Any]:
        """Yield the functions that it sees and that a run is one of."""
        for function in (*self._own.values(), *self._held().values()):
            if is_run_of(function, run):
                yield function

    def _held(self) -> dict[Any, Any]:
        """Return the functions in its closure, and in theirs."""
        if self._closure is None:
            found: dict[Any, Any] = {}
            for value in _closure(self._run) if self._run is not None else ():
                _gather(value, found)
            self._closure = found
        return self._closure


def _closure(run: Body) -> list[Any]:
    if run.function is None:
        return list(run.free.values())
    return [*closed_over(innermost(run.function)).values()]


def _gather(value: Any, found: dict[Any, Any]) -> None:
    """Add a function and those that it closes over, or is made of."""
    if not _is_known(value) or function_key(value) in found:
        return
    found[function_key(value)] = value
    layer = peel(value) if public_name(value) is None else None
    if layer is None:
        return
    is_plain = layer.kind == "function"
    more = [*closed_over(layer.value).values()] if is_plain else [layer.inner]
    if layer.kind == "partial":
        more += [*layer.value.args, *layer.value.keywords.values()]
    for inner in more:
        _gather(inner, found)


def bound(function: Any) -> tuple[Any, list[Any], dict[str, Any]]:
    """Return the plain function inside a callable, and what is bound of its arguments.

    It is None if the callable does more than bind arguments.
    """
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    layer = peel(function)
    while layer is not None and layer.kind in ("partial", "method"):
        if layer.kind == "partial":
            args = [*layer.value.args, *args]
            kwargs = {**layer.value.keywords, **kwargs}
        else:
            args = [layer.value.__self__, *args]
        layer = peel(layer.inner)
    is_found = layer is not None and layer.kind == "function"
    return (layer.value if layer is not None and is_found else None), args, kwargs


def is_run_of(function: Any, run: Body) -> bool:
    """Whether a call that Python made ran a function."""
    plain, args, kwargs = bound(function)
    if plain is None or plain.__code__ is not run.code:
        return False
    held = dict(zip(run.parameters, args)) | kwargs
    same = (_is_same(run.parameters.get(name), value) for name, value in held.items())
    return all(same) and _has_closure(plain, run)


def _is_same(held: Any, value: Any) -> bool:
    """Whether a parameter held what is bound; containers were copied."""
    is_known = is_array(value) or is_function(value) or is_plain(value)
    return held is value or not is_known


def _has_closure(plain: Any, run: Body) -> bool:
    """Whether a run closed over what a function does."""
    held = closed_over(plain).items()
    return all(run.free.get(name, value) is value for name, value in held)


def all_runs_of(function: Any, bodies: Iterable[Body]) -> list[Body]:
    """List the runs of a function in some runs, and in all that these called."""
    plain = innermost(function)
    if plain is None:
        return []
    return [
        run
        for body in bodies
        for run in (body, *runs_inside(body))
        if run.code is plain.__code__
        and run.is_finished
        and run.opened is None
        and run.function in (None, plain)
        and _has_closure(plain, run)
    ]


def only_run(function: Any, runs: Sequence[Body], plan: Plan) -> Body:
    """Return the run of a function that shows what it does in all of them.

    Raises:
      Unwritable: If there is none, or they differ in what is no parameter.
    """
    if not runs:
        raise Unwritable(f"`{function_name(function)}` was not run")
    given = [_fixed(run, plan) for run in runs]
    if any(other != given[0] for other in given):
        name = function_name(function)
        raise Unwritable(f"`{name}` is given different values that are no arrays")
    return runs[-1]


def have_one_type(runs: Sequence[Body]) -> bool:
    """Whether the arrays that some runs were given have the same shapes."""
    shapes = [
        [np.shape(array) for array in arrays_in(list(run.parameters.values()))]
        for run in runs
    ]
    return all(other == shapes[0] for other in shapes)


def _fixed(run: Body, plan: Plan) -> dict[str, Any]:
    names = fixed_names(run, plan)
    return {name: mark(run.parameters[name]) for name in names}


def mark(value: Any) -> Any:
    """Return what identifies a value that is no array: trees by their parts.

    A derivative rule may build the fixed arguments of its function anew at every call.
    """
    if type(value) in (tuple, list):
        return (type(value), *map(mark, value))
    if type(value) is dict:
        return (dict, *((mark(key), mark(item)) for key, item in value.items()))
    parts = jaxapi.node_parts(value)
    if parts is not None:
        return (type(value), mark(parts))
    return repr(value) if is_plain(value) else id(value)


def fixed_names(run: Body, plan: Plan) -> frozenset[str]:
    """Return the parameters that are written as what they held.

    Arrays, floats and functions are passed, and what JAX may pass as an empty tree.
    """
    return frozenset(
        name
        for name, value in run.parameters.items()
        if not (
            has_array(value)
            or type(value) is float
            or is_empty_tree(value)
            or is_passed(value, name, run.code, plan)
        )
    )


def is_empty_tree(value: Any) -> bool:
    """Whether a value without arrays is a tree all the same: it has no leaves."""
    if value is None or value == ():
        return True
    return isinstance(value, (dict, list)) and not jax.tree.leaves(value)
