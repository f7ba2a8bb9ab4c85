"""Write functions as arguments of the user's functions, and the calls of parameters."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from untrace import jaxapi
from untrace.capture.attributes import holds
from untrace.capture.origins import function_name
from untrace.lifting.recorded.building import call, keyword
from untrace.lifting.recorded.functions.definitions import bound_parameters, define
from untrace.lifting.recorded.functions.function_values import (
    all_runs_of,
    bound,
    fixed_names,
    have_one_type,
    only_run,
    parameter_key,
)
from untrace.lifting.recorded.naming.values import has_array
from untrace.lifting.recorded.plan import Restart
from untrace.lifting.recorded.terms import Term
from untrace.lifting.recorded.unwritable import UnknownArray, Unwritable
from untrace.lifting.recorded.writer import Writer
from untrace.lifting.spelling.homes import public_name
from untrace.recovery.functions import is_function, peel
from untrace.recovery.record import Body, Call


def passed_term(
    function: Any, parameter: tuple[Any, str], bodies: Sequence[Body], writer: Writer
) -> Term:
    """Write a function that a parameter takes.

    Args:
      parameter: The code of the function that it is passed to, and the parameter.
      bodies: Runs in which it ran.
      writer: Writes the function around the call.

    Raises:
      Restart: If it cannot be written; then it is no parameter any more.
    """
    plan, (code, hint) = writer.program.plan, parameter
    plan.has_passed = True
    key = parameter_key(function, hint, code)
    if not have_one_type(all_runs_of(function, bodies)):
        plan.doubtful.add(key)
    try:
        return _term(function, bodies, writer)
    except UnknownArray:
        raise
    except Unwritable as error:
        plan.bake_parameter(key)
        raise Restart from error


def _term(function: Any, bodies: Sequence[Body], writer: Writer) -> Term:
    known = writer.find_function(function)
    if known is not None:
        return writer.ref(known)
    layer = peel(function)
    if layer is None or public_name(function) is not None:
        return writer.function(function, ())
    if layer.kind == "partial":
        return _partial(function, bodies, writer)
    if layer.kind in ("function", "method"):
        return _definition(function, bodies, writer)
    return writer.function(function, all_runs_of(function, bodies))


def _definition(function: Any, bodies: Sequence[Body], writer: Writer) -> Term:
    """Define a function with all the parameters that are not fixed."""
    plan = writer.program.plan
    run = _run(function, bodies, writer)
    fixed = fixed_names(run, plan)
    for name in fixed - bound_parameters(function, run):
        if holds(run.parameters[name], jaxapi.Tracer):
            raise Unwritable(f"`{name}` is an object that JAX cannot be given")
    positions = [i for i, name in enumerate(run.parameters) if name in fixed]
    return define(function, run, writer, fixed=positions)


def _run(function: Any, bodies: Sequence[Body], writer: Writer) -> Body:
    """Return a run of a function; JAX does not run a branch again that it has traced."""
    program = writer.program
    runs = all_runs_of(function, bodies)
    earlier = None if runs else program.runs.anywhere(function, bodies)
    return only_run(function, [earlier] if earlier else runs, program.plan)


def _partial(
    function: functools.partial[Any], bodies: Sequence[Body], writer: Writer
) -> Term:
    """Write `functools.partial(f, x)`."""
    plain = bound(function)[0]
    if plain is not function.func:
        raise Unwritable(f"arguments of `{function_name(function.func)}` are bound")
    plan = writer.program.plan
    run = _run(plain, bodies, writer)
    fixed = fixed_names(run, plan) | bound_parameters(plain, run)
    terms = [
        _argument(value, run, writer, name)
        for name, value in zip(run.parameters, function.args)
        if name not in fixed
    ]
    terms += [
        keyword(name, _argument(value, run, writer, name))
        for name, value in function.keywords.items()
        if name not in fixed
    ]
    inner = _term(plain, bodies, writer)
    if not terms:
        return inner
    partial = f"{writer.program.lifter.imports.module('functools')}.partial"
    return call(Term([partial]), [inner, *terms])


def write_given_call(item: Call, function: Any, writer: Writer) -> None:
    """Write a call of a function that is a parameter."""
    found = writer.find_called(item, function)
    assert found is not None
    arguments = _arguments(item, function, writer)
    writer.assign(item, call(writer.ref(found), arguments))


def _arguments(item: Call, function: Any, writer: Writer) -> list[Term]:
    """Write the arguments that are not fixed, by position where that is possible."""
    (run,) = item.bodies
    plain, args, kwargs = bound(function)
    code, names = run.code, list(run.parameters)
    fixed = fixed_names(run, writer.program.plan) | bound_parameters(plain, run)
    n_named = code.co_argcount + code.co_kwonlyargcount
    terms: list[Term] = []
    is_positional = True
    for position, name in enumerate(names[:n_named]):
        is_positional = is_positional and position < code.co_argcount
        if position < len(args) or name in kwargs:
            is_positional = is_positional and name not in kwargs
        elif name not in fixed:
            term = _argument(run.parameters[name], run, writer, name)
            terms.append(term if is_positional else keyword(name, term))
    for name in names[n_named:]:
        rest = run.parameters[name]
        if not has_array(rest):
            continue
        if isinstance(rest, dict):
            terms += [keyword(k, writer.value(v, k)) for k, v in rest.items()]
        else:
            terms += [writer.value(value) for value in rest]
    return terms


def _argument(value: Any, run: Body, writer: Writer, name: str) -> Term:
    if is_function(value) and not has_array(value):
        return passed_term(value, (run.code, name), [run], writer)
    return writer.value(value, name)
