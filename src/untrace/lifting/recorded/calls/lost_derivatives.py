"""Calls that differentiate what a library's primitive computes, in its own way.

A file has what the primitive computes in its place, and refuses to differentiate that
where the library does it in another way. What such a call makes is known all the same.
Files that keep types import the primitive, and its derivative with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from untrace import jaxapi
from untrace.recovery.functions import peel
from untrace.recovery.record import Bind, Body, Call, calls_inside
from untrace.recovery.transformations import names_of

_REVERSE = frozenset({"grad", "jacrev", "value_and_grad", "vjp"})
_FORWARD = frozenset({"hessian", "jacfwd", "jvp"})
_DIFFERENTIATING = _REVERSE | _FORWARD | {"linearize"}

_REASON = "the derivative of `{}` is its library's alone (keep_types=True imports it)"


def lost_derivative(item: Call, pulled_back: Set[Any]) -> str:
    """Say which primitive's derivative a call asks for that no file has; "" if none.

    Args:
      pulled_back: The primitives that have the backward passes of their libraries.
    """
    span = item.span
    if item.is_own or span is None:
        return ""
    binds = span.log[span.first : span.last]
    libraries = set(filter(jaxapi.library_of, {bind.primitive for bind in binds}))
    libraries -= pulled_back
    if not (libraries and names_of(item.function) & _DIFFERENTIATING):
        return ""
    for bind in binds:
        if bind.primitive in libraries and _is_refused(bind):
            return _REASON.format(bind.primitive.name)
    return ""


def lost_in(body: Body, pulled_back: Set[Any]) -> str:
    """Say so of the calls in a run."""
    found = (lost_derivative(item, pulled_back) for item in calls_inside(body))
    return next(filter(None, found), "")


def computes_lost(body: Body) -> str:
    """Say which primitive of that kind a run computes, differentiated or not.

    One in a loop, or in a function with rules of its own, is computed as well, and has no
    backward pass in a file: the rules would differentiate the loop.
    """
    for item in body.calls:
        for is_inside, asked in _of_libraries(item):
            is_known = not is_inside and jaxapi.pulls_back_otherwise(*asked)
            if not is_known and jaxapi.differentiates_otherwise(*asked):
                return _REASON.format(asked[0].name)
    return ""


def pulled_back_in(body: Body) -> set[Any]:
    """Return the primitives of libraries that reverse mode goes through in a run.

    Those are meant whose backward pass is known, and not that of what they compute, and
    that nothing differentiates in forward mode.
    """
    pulled_back: set[Any] = set()
    pushed_forward: set[Any] = set()
    for item in calls_inside(body):
        names = frozenset[str]() if item.is_own else _names_within(item.function)
        if names & (_REVERSE | _FORWARD):
            found = pushed_forward if names & _FORWARD else pulled_back
            for _, asked in _of_libraries(item):
                if asked[0] not in found and jaxapi.pulls_back_otherwise(*asked):
                    found.add(asked[0])
    return pulled_back - pushed_forward


_Asked = tuple[Any, Mapping[str, Any], Sequence[Any], Sequence[Any]]
"""A primitive, its params, and the types of its operands and results."""


def _of_libraries(item: Call) -> Iterator[tuple[bool, _Asked]]:
    """Yield which primitives of libraries a call binds, and if in a sub-program."""
    span = item.span
    for bind in span.log[span.first : span.last] if span else ():
        if jaxapi.library_of(bind.primitive):
            yield False, (bind.primitive, bind.params, *_types(bind))
        for eqn in jaxapi.equations_inside(bind):
            if jaxapi.library_of(eqn.primitive):
                operands, results = (
                    [atom.aval for atom in of] for of in (eqn.invars, eqn.outvars)
                )
                yield True, (eqn.primitive, eqn.params, operands, results)


def _names_within(function: Any) -> frozenset[str]:
    """Return what a function is called as a transformation, and what it transforms."""
    layer = peel(function)
    if layer is None or layer.kind != "transformed":
        return names_of(function)
    return names_of(function) | _names_within(layer.inner)


def _is_refused(bind: Bind) -> bool:
    return any(map(jaxapi.is_differentiated, bind.args)) and _is_other(bind)


def _is_other(bind: Bind) -> bool:
    types = _types(bind)
    return jaxapi.differentiates_otherwise(bind.primitive, bind.params, *types)


def _types(bind: Bind) -> tuple[list[Any], list[Any]]:
    operands = [jaxapi.aval_of(arg) for arg in bind.args]
    return operands, [jaxapi.aval_of(result) for result in bind.results]
