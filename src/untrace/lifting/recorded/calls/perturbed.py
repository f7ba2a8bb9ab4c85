"""Rules of `jax.custom_vjp` that are told of symbolic zeros: one for each case.

A forward rule that is told which arguments are perturbed may do something else in each
case, and so may a backward rule that is told which cotangents there are. They are run in
the cases that the proof asks for, and a helper of the module chooses among them.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from untrace import jaxapi
from untrace.errors import LiftingError
from untrace.lifting.recorded.building import call, dict_of, display, entry, starred
from untrace.lifting.recorded.calls.lost_derivatives import (
    computes_lost,
    lost_in,
    pulled_back_in,
)
from untrace.lifting.recorded.functions.definitions import define
from untrace.lifting.recorded.plan import Plan, Restart
from untrace.lifting.recorded.program import Program
from untrace.lifting.recorded.readers import public_readers
from untrace.lifting.recorded.terms import Global, Term
from untrace.lifting.recorded.unwritable import Unwritable
from untrace.lifting.recorded.writer import Writer
from untrace.recovery.apart import ToldRules, perturbable, trace_told_rules
from untrace.recovery.functions import innermost, positional, rules
from untrace.recovery.record import Body
from untrace.stages import staged

Choice = tuple[bool, ...]
Backward = dict[Choice, Term]
RaisingRule = Callable[[Exception], Term]


def refuse_lost(body: Body) -> None:
    """Refuse a function whose rules differentiate what it computes, if no file can.

    That is known by a run of it, before anything of it is written.

    Raises:
      LiftingError: If so.
    """
    lost = computes_lost(body)
    if lost:
        raise LiftingError(lost)


def perturbed_rules(
    function: Any,
    body: Body,
    fixed: Sequence[int],
    first: Sequence[int],
    raising: RaisingRule,
    writer: Writer,
) -> Term:
    """Define the rules of a function in their cases; return what `defvjp` is given.

    Args:
      function: A `jax.custom_vjp` whose rules are told of symbolic zeros.
      body: A run of it.
      fixed: The positions of arguments that are no parameters.
      first: The positions of these among the first parameters of the backward rule.
      raising: Defines a rule that raises an error.
      writer: Writes the function around it.

    Raises:
      Unwritable: If a function is among the arguments, which the helper cannot pass on.
      LiftingError: If the rules differentiate what no file can.
    """
    if len(fixed) < len(function.nondiff_argnums):
        raise Unwritable("rules that are told of symbolic zeros are passed functions")
    fwd, bwd = rules(function)
    made: dict[Choice, tuple[Term, Backward]] = {}
    traced = _traced(function, body, writer.program)
    if not writer.program.options.keep_types:  # else primitives are imported
        _pull_back(traced.values(), writer.program.plan)
    for given, told in traced.items():
        if isinstance(told, Exception):
            made[given] = raising(told), {}
            continue
        forward = define(fwd, told.forward, writer, fixed=fixed, keeps_defaults=True)
        backward: Backward = {}
        for cotangents, run in told.backward.items():
            backward[cotangents] = (
                raising(run)
                if isinstance(run, Exception)
                else define(bwd, run, writer, fixed=first, keeps_defaults=True)
            )
        made[given] = forward, backward
    helper = Global(writer.program.lifter.helper("by_perturbed"))
    return starred(call(Term([helper]), [_cases(_distinct(made))]))


@staged("derivative rules")
def _traced(
    function: Any, body: Body, program: Program
) -> Mapping[Choice, ToldRules | Exception]:
    """Return runs of the rules in the cases that the proof asks for."""

    def traced() -> dict[Choice, ToldRules | Exception]:
        found: dict[Choice, ToldRules | Exception] = {}
        for given, cotangents in _listed(function, body, program).items():
            try:
                told = trace_told_rules(
                    function, body, public_readers, given, cotangents
                )
            except LiftingError:
                raise
            except Exception as error:  # the user's code, which may raise anything
                found[given] = error
            else:
                found[given] = told
        return found

    return program.plan.apart.once((id(function), id(body)), traced)


def _pull_back(traced: Iterable[ToldRules | Exception], plan: Plan) -> None:
    """Learn which primitives of libraries reverse mode goes through in rules.

    Raises:
      Restart: If there are more of them than was known.
      LiftingError: If rules differentiate what no file can: most of each would be
        equations.
    """
    runs = [
        run
        for told in traced
        if not isinstance(told, Exception)
        for run in (told.forward, *told.backward.values())
        if not isinstance(run, Exception)
    ]
    n_known = len(plan.pulled_back)
    plan.pulled_back.update(*map(pulled_back_in, runs))
    if len(plan.pulled_back) > n_known:
        raise Restart
    for run in runs:
        lost = lost_in(run, plan.pulled_back)
        if lost:
            raise LiftingError(lost)


def _listed(function: Any, body: Body, program: Program) -> dict[Choice, list[Choice]]:
    """List the cases: which arguments are perturbed, and which cotangents there are."""
    values = positional(function, body)
    fixed = set(function.nondiff_argnums)
    inputs = perturbable([value for i, value in enumerate(values) if i not in fixed])
    outputs = perturbable(body.result)
    plain = innermost(rules(function)[0])
    code = getattr(plain, "__code__", None)
    used: list[jaxapi.RuleCase] = []
    if code is not None:
        used += program.lifter.rule_cases.used_by(code)
        asked = filter(any, _asked(code, program))
        used += [jaxapi.RuleCase(each, outputs) for each in asked]
    # Another function may have rules of this code.
    used = [c for c in used if _sizes(*c) == (len(inputs), len(outputs))]
    found: dict[Choice, list[Choice]] = {}
    for case in jaxapi.told_cases(inputs, outputs, used):
        found.setdefault(case.given, []).append(case.cotangents)
    return found


def _asked(code: types.CodeType, program: Program) -> Iterator[Choice]:
    """Yield which arguments were perturbed where the program differentiates a function.

    The function is told by the code of its forward rule. Its call is one that is
    differentiated, or in a sub-program that was, of which JAX keeps what it asked for.
    """
    for item in (i for run in program.plan.roots() for i in run.calls):
        span = item.span
        for bind in span.log[span.first : span.last] if span else ():
            yield from jaxapi.choices_asked_for(jaxapi.equations_inside(bind), code)
            forward = jaxapi.bound_forward_rule(bind.params)
            if forward is not None and code in jaxapi.codes_behind(forward):
                yield tuple(map(jaxapi.is_differentiated, bind.args))


def _sizes(*choices: Choice) -> tuple[int, ...]:
    return tuple(map(len, choices))


def _distinct(
    made: Mapping[Choice, tuple[Term, Backward]],
) -> dict[Choice, tuple[Term, Backward]]:
    """Leave out cases for which the helper takes the same rules from a larger one."""
    kept: dict[Choice, tuple[Term, Backward]] = {}
    for given in sorted(made, key=sum, reverse=True):
        larger = [
            each
            for each in kept
            if all(has or not is_given for is_given, has in zip(given, each))
        ]
        chosen = min(larger, key=sum, default=None)
        if chosen is None or _text(made[chosen]) != _text(made[given]):
            kept[given] = made[given]
    return {given: made[given] for given in made if given in kept}


def _text(pair: tuple[Term, Backward]) -> tuple[str, dict[Choice, str]]:
    forward, backward = pair
    return forward.render(), {case: rule.render() for case, rule in backward.items()}


def _cases(made: Mapping[Choice, tuple[Term, Backward]]) -> Term:
    return _dict(
        (given, display("()", [forward, _dict(backward.items())]))
        for given, (forward, backward) in made.items()
    )


def _dict(items: Iterable[tuple[Choice, Term]]) -> Term:
    """Write a dict whose keys list what is given."""
    return dict_of(
        entry(tuple([i for i, has in enumerate(key) if has]), term)
        for key, term in items
    )
