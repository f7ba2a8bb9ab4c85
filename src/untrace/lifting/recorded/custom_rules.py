"""Define functions with derivative rules: `jax.custom_jvp` and `jax.custom_vjp`.

Rules that the recorded run did not need are traced apart, at the recorded types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from untrace import jaxapi
from untrace.capture.capture import function_name
from untrace.lifting.recorded.batching_rules import batching_term
from untrace.lifting.recorded.definitions import define
from untrace.lifting.recorded.expressions import is_plain
from untrace.lifting.recorded.readers import public_readers
from untrace.lifting.recorded.rule_places import is_global, place_rules
from untrace.lifting.recorded.terms import (
    Term,
    call,
    keyword,
    text_term,
)
from untrace.lifting.recorded.unwritable import Unwritable
from untrace.lifting.recorded.writer import Writer
from untrace.recovery.apart import trace_gradient, trace_primal, trace_rules
from untrace.recovery.functions import innermost, rules
from untrace.recovery.record import Body

if TYPE_CHECKING:
    from untrace.lifting.recorded.program import Program

# Rules of rules that are written; the proof follows them about as deep.
MAX_NESTED = 2


def custom_term(
    function: Any, bodies: Sequence[Body], writer: Writer, args: Sequence[Any] = ()
) -> Term:
    """Define a function with its derivative rules, once; return its name.

    Args:
      function: What `jax.custom_jvp`, `jax.custom_vjp` or `custom_vmap` made.
      bodies: The runs in the call that is written.
      writer: Writes the function around it.
      args: The arguments, if it is called.

    Raises:
      Unwritable: If it cannot be defined.
    """
    if isinstance(function, jaxapi.CUSTOM_VMAP):
        return batching_term(function, bodies, writer)
    if getattr(function, "symbolic_zeros", False):
        raise Unwritable("rules with symbolic zeros are written by equations only")
    customs = writer.program.customs
    key = _key(function, args)
    known = customs.get(key)
    if known is not None:
        return known
    if jaxapi.gradient_function(function) is not None:
        made = _gradient_term(function, bodies, writer)
        if is_global(made):
            customs[key] = made
        return made
    opened = writer.program.open_customs
    if opened.count(id(function)) > MAX_NESTED:
        name = function_name(function.fun)
        raise Unwritable(f"the rules of `{name}` call it at ever new fixed arguments")
    body = _primal(function, bodies, args, writer.program)
    maker, method = _spelling(function)
    decorator = writer.program.home_term(("jax", maker))
    fixed = function.nondiff_argnums
    made = define(function, body, writer, [decorator], key=key, fixed=fixed)
    customs[key] = made  # its rules may call it
    opened.append(id(function))
    try:
        defined = _rules(function, body, bodies, writer)
    finally:
        opened.pop()
    place_rules(made, method, defined, _options(function), writer)
    if not is_global(made):
        del customs[key]
    return made


def _gradient_term(function: Any, bodies: Sequence[Body], writer: Writer) -> Term:
    """Define a function with `jax.custom_gradient`, which returns its rule, too."""
    program, given = writer.program, jaxapi.gradient_function(function)
    run = program.runs.last(function, bodies)
    if run is None:
        raise Unwritable(f"`{function_name(given)}` was not run")
    known, key = program.plan.rules, (id(function), id(run))
    if key not in known:
        known[key] = trace_gradient(given, run, public_readers())
    body, rule = known[key]
    program.runs.last(body.result[1], [rule])  # the result is written by this run
    decorator = program.home_term(("jax", "custom_gradient"))
    if jaxapi.gradient_has_logs(function):
        decorator = call(decorator, [keyword("with_logs", text_term("True"))])
    return define(given, body, writer, [decorator])


def _key(function: Any, args: Sequence[Any]) -> Any:
    """Tell apart the variants of a function: one for each set of fixed arguments."""
    fixed = [args[i] for i in function.nondiff_argnums if i < len(args)]
    return (id(function), *[repr(a) if is_plain(a) else id(a) for a in fixed])


def _spelling(function: Any) -> tuple[str, str]:
    """Return the name of its decorator, and of the method that defines its rules."""
    is_jvp = isinstance(function, jaxapi.CUSTOM_JVP)
    if jaxapi.elementwise_rules(function):
        method = "defjvps"
    else:
        method = "defjvp" if is_jvp else "defvjp"
    return "custom_jvp" if is_jvp else "custom_vjp", method


def _options(function: Any) -> list[Term]:
    """Write the options that its rules were defined with."""
    is_lean = getattr(function, "optimize_remat", False)
    return [keyword("optimize_remat", text_term("True"))] if is_lean else []


def _primal(
    function: Any, bodies: Sequence[Body], args: Sequence[Any], program: Program
) -> Body:
    """Return a run of a function, tracing it if only its rules ran."""
    body = program.runs.last(function, bodies)
    if body is not None:
        return body
    if not args:
        raise Unwritable(f"`{function_name(function.fun)}` was not run")
    known = program.plan.rules
    key = id(function), *map(id, args)
    if key not in known:
        known[key] = trace_primal(function, args, public_readers())
    return known[key]


def _rules(
    function: Any, body: Body, bodies: Sequence[Body], writer: Writer
) -> list[Term]:
    """Define the derivative rules of a function."""
    fixed = function.nondiff_argnums
    runs = _rule_runs(function, body, bodies, writer.program)
    made: list[Term] = []
    for rule, run in zip(rules(function), runs):
        if run is None:
            made.append(Term(["None"]))
            continue
        is_forward = rule is getattr(function, "fwd", None)
        positions = fixed if is_forward else range(len(fixed))
        made.append(define(rule, run, writer, fixed=positions))
    return made


def _rule_runs(
    function: Any, body: Body, bodies: Sequence[Body], program: Program
) -> list[Body | None]:
    """Return a run of each derivative rule, tracing those that were not needed."""
    given = {
        innermost(rule): run
        for rule in rules(function)
        for run in bodies
        if run.is_finished and run.code is getattr(innermost(rule), "__code__", None)
    }
    if len(given) == len(rules(function)):
        return [given[innermost(rule)] for rule in rules(function)]
    known = program.plan.rules
    key = id(function), id(body)
    if key not in known:
        known[key] = trace_rules(function, body, public_readers())
    return known[key]
