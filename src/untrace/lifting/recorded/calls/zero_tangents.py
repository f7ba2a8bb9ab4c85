"""Rules that are told which tangents are zero: one function for each case that ran.

A rule with `symbolic_zeros=True` may do different things when a tangent is symbolically
zero. A recorded run shows what it does in one case, so a rule is written once with every
tangent given and once for each other case (of the run, and each tangent alone while they
are few), and a function chooses. In any other case zeros stand for missing tangents.
"""

from __future__ import annotations

import types
from collections.abc import Mapping

import jax

from untrace.lifting.heads import plain_head
from untrace.lifting.lifter import Lifter
from untrace.lifting.printing import Function
from untrace.lifting.recorded.terms import Global, Term, is_bound, is_global
from untrace.recovery.record import Body, runs_inside
from untrace.syntax.names import identifier

Zeros = tuple[bool, ...]
MAX_SHOWN = 8
"""Most tangents of which it is said one by one whether they are zero."""


def zero_cases(code: types.CodeType, recording: Body) -> list[Zeros]:
    """List which tangents were zero in the runs of a rule, if any was, in order."""
    cases = dict.fromkeys(
        tuple(map(_is_zero, jax.tree.leaves([*run.parameters.values()][-1:])))
        for run in runs_inside(recording)
        if run.code is code and run.is_finished and run.opened is None
    )
    return [case for case in cases if any(case)]


def chosen_rule(
    name: str,
    general: Term,
    cases: Mapping[Zeros, Term],
    lifter: Lifter,
    are_all: bool,
) -> Term:
    """Define a rule that calls another one for each case of zero tangents.

    Args:
      name: What the function is called that it is the rule of.
      general: The rule for all tangents.
      cases: Other rules, by which of the leaves of the tangents are zero.
      lifter: Holds the functions of the module.
      are_all: Whether there is no other case, but for those in which the rule raises.

    Returns:
      The name of the rule; `general` if the others are no functions of the module.
    """
    terms = [general, *cases.values()]
    if not all(is_global(term) and not is_bound(term) for term in terms):
        return general
    first = general.render()
    others = {zeros: rule for zeros, rule in cases.items() if rule.render() != first}
    if not others and are_all:
        return general
    zero = lifter.imports.attribute("jax.custom_derivatives", "SymbolicZero")
    leaves = f"{lifter.imports.module('jax')}.tree.leaves(tangents)"
    given = "tangents" if are_all else f"{lifter.helper('instantiated')}(tangents)"

    def written() -> Function:
        lines: list[str] = []
        shown: dict[Zeros, str] = {}
        if others and max(map(len, others)) > MAX_SHOWN:
            test = f"not isinstance(t, {zero})"
            lines = [f"given = [i for i, t in enumerate({leaves}) if {test}]"]
            shown = {zeros: f"given == {_given(zeros)}" for zeros in others}
        elif others:
            lines = [f"zeros = [isinstance(t, {zero}) for t in {leaves}]"]
            shown = {zeros: f"zeros == {[*zeros]}" for zeros in others}
        for zeros, rule in others.items():
            called = f"return {rule.render()}(primals, tangents)"
            lines += [f"if {shown[zeros]}:", f"    {called}"]
        lines.append(f"return {general.render()}(primals, {given})")
        return Function("", plain_head("primals", "tangents"), lines)

    made = written()
    made.name = lifter.scope.fresh_global(identifier(f"{name}_rule", "rule"))
    made.again = written
    lifter.functions.append(made)
    return Term([Global(made)])


def _given(zeros: Zeros) -> list[int]:
    return [index for index, is_zero in enumerate(zeros) if not is_zero]


def _is_zero(tangent: object) -> bool:
    return isinstance(tangent, jax.custom_derivatives.SymbolicZero)
