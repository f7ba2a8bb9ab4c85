"""Calls that differentiate what a library's primitive computes, in its own way.

A file has what the primitive computes in its place, and refuses to differentiate that
where the library does it in another way. What such a call makes is known all the same.
Files that keep types import the primitive, and its derivative with it.
"""

from __future__ import annotations

from typing import Any

from untrace import jaxapi
from untrace.recovery.functions import peel
from untrace.recovery.record import Bind, Body, Call, calls_inside
from untrace.recovery.transformations import names_of

_REVERSE = frozenset({"grad", "jacrev", "value_and_grad", "vjp"})
_FORWARD = frozenset({"hessian", "jacfwd", "jvp"})
_DIFFERENTIATING = _REVERSE | _FORWARD | {"linearize"}

_REASON = "the derivative of `{}` is its library's alone (keep_types=True imports it)"


def lost_derivative(item: Call) -> str:
    """Say which primitive's derivative a call asks for that no file has; "" if none."""
    if (
        item.is_own
        or item.span is None
        or not names_of(item.function) & _DIFFERENTIATING
    ):
        return ""
    span = item.span
    for bind in span.log[span.first : span.last]:
        if jaxapi.library_of(bind.primitive) and _is_refused(bind):
            return _REASON.format(bind.primitive.name)
    return ""


def lost_in(body: Body) -> str:
    """Say so of the calls in a run."""
    return next(filter(None, map(lost_derivative, calls_inside(body))), "")


def computes_lost(body: Body) -> str:
    """Say which primitive of that kind a run computes, differentiated or not.

    One in a loop, or in a function with rules of its own, is computed as well.
    """
    for item in body.calls:
        span = item.span
        for bind in span.log[span.first : span.last] if span else ():
            if jaxapi.library_of(bind.primitive) and _is_other(bind):
                return _REASON.format(bind.primitive.name)
            for eqn in jaxapi.equations_inside(bind):
                avals = [[atom.aval for atom in of] for of in (eqn.invars, eqn.outvars)]
                if jaxapi.library_of(eqn.primitive) and (
                    jaxapi.differentiates_otherwise(eqn.primitive, eqn.params, *avals)
                ):
                    return _REASON.format(eqn.primitive.name)
    return ""


def pulled_back_in(body: Body) -> set[Any]:
    """Return the primitives of libraries that reverse mode goes through in a run.

    Those are meant whose backward pass is known, and not that of what they compute, and
    that nothing differentiates in forward mode.
    """
    pulled_back: set[Any] = set()
    pushed_forward: set[Any] = set()
    for item in calls_inside(body):
        if item.is_own or item.span is None:
            continue
        names = _names_within(item.function)
        if not names & (_REVERSE | _FORWARD):
            continue
        found = pushed_forward if names & _FORWARD else pulled_back
        span = item.span
        for bind in span.log[span.first : span.last]:
            avals = [jaxapi.aval_of(arg) for arg in bind.args]
            results = [jaxapi.aval_of(result) for result in bind.results]
            _note(bind.primitive, bind.params, avals, results, found)
            for eqn in jaxapi.equations_inside(bind):
                types = [[atom.aval for atom in of] for of in (eqn.invars, eqn.outvars)]
                _note(eqn.primitive, eqn.params, *types, found)
    return pulled_back - pushed_forward


def _note(
    primitive: Any, params: Any, avals: Any, results: Any, found: set[Any]
) -> None:
    is_known = primitive in found or not jaxapi.library_of(primitive)
    if not is_known and jaxapi.pulls_back_otherwise(primitive, params, avals, results):
        found.add(primitive)


def _names_within(function: Any) -> frozenset[str]:
    """Return what a function is called as a transformation, and what it transforms."""
    layer = peel(function)
    is_made = layer is not None and layer.kind == "transformed"
    inner = _names_within(layer.inner) if is_made else frozenset()
    return names_of(function) | inner


def _is_refused(bind: Bind) -> bool:
    return any(map(jaxapi.is_differentiated, bind.args)) and _is_other(bind)


def _is_other(bind: Bind) -> bool:
    avals = [jaxapi.aval_of(arg) for arg in bind.args]
    results = [jaxapi.aval_of(result) for result in bind.results]
    return jaxapi.differentiates_otherwise(bind.primitive, bind.params, avals, results)
