"""Write the arguments of calls: by position or keyword, and without default values."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from untrace import jaxapi
from untrace.lifting.recorded.building import display, keyword
from untrace.lifting.recorded.calls.host_calls import host_term, is_host_function
from untrace.lifting.recorded.calls.kept_functions import with_kept
from untrace.lifting.recorded.calls.tails import tail_term
from untrace.lifting.recorded.expressions import constant_term, shape_term
from untrace.lifting.recorded.functions.library import takes_shape_of_another
from untrace.lifting.recorded.functions.runs import runs_of
from untrace.lifting.recorded.naming.values import is_array
from untrace.lifting.recorded.terms import Term
from untrace.lifting.recorded.writer import Writer
from untrace.recovery.functions import is_function, signature_of
from untrace.recovery.record import Body, Call, Spelling, is_library

_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


def plain_arguments(
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    writer: Writer,
    bodies: Sequence[Body] = (),
) -> list[Term]:
    """Write arguments as they were given; `bodies` ran the functions among them."""
    terms = [_argument(arg, writer, bodies) for arg in args]
    return terms + [
        keyword(name, _argument(value, writer, bodies, name))
        for name, value in kwargs.items()
    ]


def public_arguments(item: Call, writer: Writer) -> list[Term]:
    """Write arguments as the user did where that is known.

    Default values are only written where the user wrote them.
    """
    plain = jaxapi.open_boundary(item.function)
    if not isinstance(plain, types.FunctionType):
        known = _droppable(item.function) if item.kwargs else {}
        named = _named(item.kwargs, known, item, writer)
        return [*[_public_argument(v, item, writer) for v in item.args], *named]
    parameters = signature_of(plain).parameters
    plain_ones = [p for p in parameters.values() if p.kind in _POSITIONAL]
    extra = item.args[len(plain_ones) :]
    pairs = list(zip(plain_ones, item.args))
    n = _n_positional(plain_ones, item, bool(extra))
    first, n_spelled = pairs[:n], 0
    if (spelling := _users_spelling(item)) is not None:
        n_spelled = spelling.n_positional
    while len(first) > n_spelled and not extra:
        if not is_default(first[-1][1], first[-1][0]):
            break
        first.pop()
    terms = [_public_argument(v, item, writer, p.name) for p, v in first]
    terms += [_public_argument(value, item, writer) for value in extra]
    by_name = {parameter.name: value for parameter, value in pairs[n:]}
    return terms + _named({**by_name, **item.kwargs}, parameters, item, writer)


def _named(
    values: Mapping[str, Any],
    parameters: Mapping[str, inspect.Parameter],
    item: Call,
    writer: Writer,
) -> list[Term]:
    """Write keyword arguments that are not the default values, or that the user wrote."""
    spelling = _users_spelling(item)
    spelled = spelling.keywords if spelling is not None else ()
    return [
        keyword(name, _public_argument(value, item, writer, name))
        for name, value in values.items()
        if name not in parameters
        or not is_default(value, parameters[name])
        or name in spelled
    ]


def _users_spelling(item: Call) -> Spelling | None:
    """Return how the user wrote a call, if he did and that is known."""
    if item.place is None or is_library(item.place.code):
        return None
    return item.spelling


def _public_argument(value: Any, item: Call, writer: Writer, role: str = "") -> Term:
    """Write an argument of a public function, which has run the functions among them."""
    if is_host_function(role, item):
        return host_term(value, item, writer)
    if role == "shape":
        tail = tail_term(value, writer)
        if tail is not None:
            return tail
        if takes_shape_of_another(item):
            return shape_term(value, writer)
    if role in item.constants and type(value) is float:
        return constant_term(value, writer)
    bodies = with_kept(value, role, item, writer.program)
    # What public functions call their parameters says nothing of the arrays.
    return _argument(value, writer, bodies, "" if is_array(value) else role)


def _argument(
    value: Any, writer: Writer, bodies: Sequence[Body] = (), role: str = ""
) -> Term:
    if is_function(value) or runs_of(value, bodies):
        return writer.function(value, bodies)
    if type(value) in (list, tuple) and any(is_function(v) for v in value):
        items = [_argument(v, writer, bodies) for v in value]
        return display("()" if type(value) is tuple else "[]", items)
    return writer.value(value, role)


def _n_positional(
    parameters: Sequence[inspect.Parameter], item: Call, has_more: bool
) -> int:
    """Count the arguments to write by position."""
    if has_more:
        return len(parameters)
    needed = sum(p.kind is p.POSITIONAL_ONLY for p in parameters)
    if item.spelling is not None:
        return max(needed, item.spelling.n_positional)
    required = 0
    while required < len(parameters) and (
        parameters[required].default is inspect.Parameter.empty
    ):
        required += 1
    return max(needed, required)


def _droppable(function: Any) -> Mapping[str, inspect.Parameter]:
    """Return the parameters whose defaults need not be written.

    A number that is passed to a jitted function is one of its inputs, a default is not.
    Those of JAX are called many times; others are not kept alive.
    """
    is_known = type(function) is _JITTED and jaxapi.is_inside_jax(function)
    return _known_droppable(function) if is_known else _read_droppable(function)


@functools.lru_cache(maxsize=1024)
def _known_droppable(function: Any) -> Mapping[str, inspect.Parameter]:
    return _read_droppable(function)


def _read_droppable(function: Any) -> Mapping[str, inspect.Parameter]:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # some builtin and wrapped callables have none
        return {}
    _, static = jaxapi.static_arguments(function)
    return {
        name: parameter
        for name, parameter in parameters.items()
        if name in static or not isinstance(parameter.default, _NUMBERS)
    }


_JITTED = type(jax.jit(lambda: None))
_NUMBERS = (bool, int, float, complex)


def given_values(item: Call) -> list[Any]:
    """List the arguments of a call in order, without those that are the default."""
    signature = signature_of(jaxapi.open_boundary(item.function))
    given: list[Any] = []
    for name, value in signature.bind(*item.args, **item.kwargs).arguments.items():
        parameter = signature.parameters[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            given += value
        elif not is_default(value, parameter):
            given.append(value)
    return given


def is_default(value: Any, parameter: inspect.Parameter) -> bool:
    """Whether a value need not be given for a parameter."""
    if parameter.name == "out_sharding" and jaxapi.is_over_nothing(value):
        return parameter.default is None
    return parameter.default is not parameter.empty and _same(value, parameter.default)


def _same(value: Any, default: Any) -> bool:
    if value is default:
        return True
    return (
        type(value) is type(default)
        and isinstance(value, (bool, int, float, str, tuple))
        and value == default
    )
