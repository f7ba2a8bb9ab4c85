"""Which functions an opaque call is given, so that their runs are recorded as its bodies."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax

from untrace import jaxapi
from untrace.recovery.classifying import is_inside_jax
from untrace.recovery.functions import bound_arguments, index_maps, innermost, opened
from untrace.recovery.record import Call
from untrace.recovery.transformations import opened_layer


class _Passed(NamedTuple):
    """What a callable that is given to an opaque call makes to be watched there.

    Attributes:
      code: Where the wrapper of a transformation runs that is to be opened.
      inner: The function inside, if it is not one of JAX's.
      rules: Its derivative rules.
      bound: Callables that one of JAX's has bound, as in `partial(jax.lax.scan, f)`, and
        the index maps of a kernel.
    """

    code: types.CodeType | None
    wrapper: Any
    inner: types.FunctionType | None
    rules: tuple[types.FunctionType, ...]
    bound: tuple[Any, ...] = ()


_NOTHING = _Passed(None, None, None, ())


class PassedFunctions:
    """Knows what opaque calls were given.

    Args:
      expand: Transformations whose calls inside other transformations are recorded.

    Attributes:
      rule_codes: The derivative rules that may run at any later time, by the `id` of their
        code, with the last call that was given each, the latest last.
    """

    def __init__(self, expand: frozenset[str]) -> None:
        self._expand = expand
        self._known: dict[int, tuple[Any, _Passed]] = {}
        self.rule_codes: dict[int, dict[types.FunctionType, Call]] = {}

    def watched(
        self, called: jaxapi.Called, call: Call, is_tree: bool = False
    ) -> dict[int, Any]:
        """Return what is watched for in a call, by the `id` of the code.

        That is a function, a tuple of functions that share their code, or a list of
        wrappers of transformations that do.

        Args:
          called: What is called.
          is_tree: Whether that is one of JAX's functions on trees.
        """
        codes: dict[int, Any] = {}
        if not isinstance(called.function, tuple):  # an operator or a method
            passed = self._called(called.function)
            if passed is not _NOTHING:
                self._watch(passed, call, codes)
        for item in _passed(called, is_tree):
            self._watch(self._examine(item, skipped=0), call, codes)
        return codes

    def _watch(self, passed: _Passed, call: Call, codes: dict[int, Any]) -> None:
        """Watch for the functions inside what an opaque call was given."""
        if passed.code is not None:
            codes.setdefault(id(passed.code), []).append(passed.wrapper)
        if passed.inner is not None:
            _add(passed.inner, codes)
        for rule in passed.rules:
            known = self.rule_codes.setdefault(id(rule.__code__), {})
            known.pop(rule, None)
            known[rule] = call
        for item in passed.bound:
            self._watch(self._examine(item, skipped=0), call, codes)

    def _called(self, function: Any) -> _Passed:
        """Examine what is called; public functions are called again and again."""
        known = self._known.get(id(function))
        if known is None:
            made = self._examine(function, skipped=1)
            known = self._known[id(function)] = function, made
        return known[1]

    def _examine(self, item: Any, skipped: int) -> _Passed:
        wrapper = opened_layer(item, self._expand, skipped) if self._expand else None
        code = jaxapi.wrapper_code(wrapper) if wrapper is not None else None
        inner, rules = opened(item)
        bound = index_maps(item)
        if inner is not None and is_inside_jax(inner.__code__):
            inner = None
            _add_callables(bound_arguments(item), bound)
        plain_rules = [innermost(rule) for rule in rules]
        known = [r for r in plain_rules if r and not is_inside_jax(r.__code__)]
        if code is None and inner is None and not known and not bound:
            return _NOTHING
        return _Passed(code, wrapper, inner, tuple(known), tuple(bound))


def _add(function: Any, codes: dict[int, Any]) -> None:
    """Watch for a function, and for others of the same code that are watched for."""
    key = id(function.__code__)
    known = codes.get(key, ())
    if type(known) is list:
        return
    several = known if type(known) is tuple else (known,)
    if all(one is not function for one in several):
        codes[key] = (*several, function) if several else function


def is_same(wrapper: Any, called: Any) -> bool:
    """Whether a call that a frame shows is of what a transformation made."""
    made = jaxapi.transformed(wrapper)
    if made is None:
        return wrapper is called
    return made.maker == called.maker and made.function is called.function


def _passed(called: jaxapi.Called, is_tree: bool) -> list[Any]:
    """List the callables that a call may run.

    JAX's functions on trees call the first of their arguments on leaves. Others tell what a
    leaf is, which is seen from the result.
    """
    found: list[Any] = []
    _add_callables(called.args[:1] if is_tree else called.args, found)
    if called.kwargs and not is_tree:
        _add_callables(called.kwargs.values(), found)
    return found


def _add_callables(values: Iterable[Any], found: list[Any]) -> None:
    """Add the callables among arguments, and in the containers among them."""
    for value in values:
        kind = type(value)
        if kind in _NO_CALLABLES:
            continue
        if kind is dict:
            _add_callables(value.values(), found)
        elif kind is tuple or kind is list:
            _add_callables(value, found)
        elif callable(value) and not isinstance(value, _NO_FUNCTIONS):
            found.append(value)
        elif _is_converted(value):
            found.append(getattr(value, CONVERSION))
        else:
            if len(_NO_CALLABLES) > _MAX_CLASSES:  # those that are made in every run
                _NO_CALLABLES.clear()
            _NO_CALLABLES.add(kind)


def _is_converted(value: Any) -> bool:
    """Whether JAX asks an object which array it is; its own attributes are not read."""
    return hasattr(type(value), CONVERSION) and not isinstance(value, _NO_FUNCTIONS)


def give_arrays(call: Call) -> None:
    """Let a call be given the arrays that objects said to be, in their place.

    The method that says so is no function that the call was given. What it has computed
    is no part of what was there before.
    """
    runs = [run for run in call.bodies if run.code.co_name == CONVERSION]
    if not runs or call.span is None:
        return
    call.bodies = [run for run in call.bodies if run not in runs]
    made = {id(array) for bind in call.span.binds() for array in bind.results}
    arrays = {
        id(object_): run.result
        for run in runs
        for object_ in [*run.parameters.values()][:1]
        if isinstance(run.result, jax.Array) and id(run.result) not in made
    }

    def array_of(value: Any) -> Any:
        if type(value) in (tuple, list):
            return type(value)(map(array_of, value))
        return arrays.get(id(value), value)

    call.args = tuple(map(array_of, call.args))
    call.kwargs = {key: array_of(value) for key, value in call.kwargs.items()}


CONVERSION = "__jax_array__"
_MAX_CLASSES = 4096
_NO_FUNCTIONS = type, jaxapi.Tracer, jax.Array
_NO_CALLABLES: set[type] = set()
"""Classes whose values are none and hold none."""
