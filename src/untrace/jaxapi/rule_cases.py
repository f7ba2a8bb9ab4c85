"""Which tangents and cotangents derivative rules may be given.

A rule with `symbolic_zeros=True` is told which tangents are zero, and may do something
else in each case. One with n tangents has 2**n - 1 cases, so for many tangents some are
listed: all of them given, each alone while they are few, and those that come up when the
program around is differentiated by all its inputs at once. These are found by having JAX
do so, over copies of the rules that note what they are given.
"""

# Rules are JAX's private wrappers; `tests/verification` needs them on every version.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import contextlib
import functools
import itertools
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
from jax._src import linear_util as _lu

from untrace.jaxapi.jaxprs import as_function, close_jaxpr, is_jaxpr, split_jaxpr
from untrace.jaxapi.rules import (
    ask_rule,
    asked_choices,
    asked_rule,
    asking,
    is_perturbable,
    pull_back,
)
from untrace.jaxapi.tracing import trace_flat
from untrace.objects import closed_over

MAX_ALONE = 4
"""Most tangents of which each is also given alone."""

Choice = tuple[bool, ...]


class RuleCase(NamedTuple):
    """What the rules of a function are given.

    Attributes:
      given: For each operand, constants left out, whether it has a tangent.
      cotangents: For each result whether it has a cotangent; none for a jvp rule.
    """

    given: Choice
    cotangents: Choice


class RuleCases:
    """The cases in which the rules of programs are traced.

    Those that come up when a program is differentiated are found when a rule is met that
    has more cases than are listed without them.
    """

    def __init__(self, *programs: Any) -> None:
        self._programs = programs
        self._used: dict[int, tuple[RuleCase, ...]] | None = None
        self._coded: list[tuple[frozenset[types.CodeType], tuple[RuleCase, ...]]] | None
        self._coded = None

    def of(
        self,
        params: Mapping[str, Any],
        operand_avals: Sequence[Any],
        result_avals: Sequence[Any],
        is_copy: bool = False,
    ) -> tuple[RuleCase, ...]:
        """List the cases of a call, the most general first.

        Args:
          params: Of a `custom_jvp_call` or `custom_vjp_call`.
          operand_avals: Avals of all its operands, constants first.
          result_avals: Avals of its results.
          is_copy: Whether the call may be one of the programs that was traced again:
            its rules are told by their code then.
        """
        if are_all_cases(params, operand_avals, result_avals):
            return rule_cases(params, operand_avals, result_avals)
        used = self._found().get(id(asked_rule(params)))
        if used is None and is_copy:
            n_given = len(operand_avals) - params["num_consts"]
            used = self._used_by_copy(asked_rule(params), n_given)
        return rule_cases(params, operand_avals, result_avals, used or ())

    def used_by(self, code: types.CodeType) -> tuple[RuleCase, ...]:
        """List the cases that come up for rules which are functions of some code."""
        cases = [cases for codes, cases in self._by_code() if code in codes]
        return tuple(dict.fromkeys(itertools.chain(*cases)))

    def _used_by_copy(self, rule: Any, n_given: int) -> tuple[RuleCase, ...]:
        """List the cases that come up for rules of the same code."""
        own = frozenset(codes_behind(rule))
        cases = [cases for codes, cases in self._by_code() if codes == own]
        found = dict.fromkeys(itertools.chain(*cases))
        return tuple([case for case in found if len(case.given) == n_given])

    def _by_code(self) -> list[tuple[frozenset[types.CodeType], tuple[RuleCase, ...]]]:
        if self._coded is None:
            noted = [p for program in self._programs for p in _Watch().noted(program)]
            asked = [asked_rule(params) for params in noted]
            found = self._found()
            self._coded = [
                (frozenset(codes_behind(rule)), found.get(id(rule), ()))
                for rule in asked
            ]
        return self._coded

    def _found(self) -> dict[int, tuple[RuleCase, ...]]:
        if self._used is None:
            self._used = self.find()
        return self._used

    def find(self) -> dict[int, tuple[RuleCase, ...]]:
        """Find the cases that come up, by the addresses of rules (see `used_cases`)."""
        used: dict[int, tuple[RuleCase, ...]] = {}
        for program in self._programs:
            used.update(used_cases(program))
        return used


def rule_cases(
    params: Mapping[str, Any],
    operand_avals: Sequence[Any],
    result_avals: Sequence[Any],
    used: Sequence[RuleCase] = (),
) -> tuple[RuleCase, ...]:
    """List the cases in which the rules of a call are traced, the most general first.

    Args:
      params: Of a `custom_jvp_call` or `custom_vjp_call`.
      operand_avals: Avals of all its operands, constants first.
      result_avals: Avals of its results.
      used: More cases (see `used_cases`).
    """
    inputs, outputs = _perturbable(params, operand_avals, result_avals)
    if not params["symbolic_zeros"]:
        # JAX makes zeros of missing tangents; only a forward rule knows of integers.
        given = inputs if outputs else (True,) * len(inputs)
        return (RuleCase(given, (True,) * len(outputs)),)
    return told_cases(inputs, outputs, used)


def told_cases(
    inputs: Choice, outputs: Choice, used: Iterable[RuleCase] = ()
) -> tuple[RuleCase, ...]:
    """List the cases of rules that are told of zeros, the most general first.

    Args:
      inputs: Which operands can have tangents.
      outputs: Which results can have cotangents.
      used: More cases (see `used_cases`).
    """
    each, others = tangent_choices(inputs), tangent_choices(outputs)
    if sum(inputs) <= 2 and sum(outputs) <= 2:
        cases = [RuleCase(given, cotangents) for given in each for cotangents in others]
    else:
        cases = [RuleCase(given, outputs) for given in each]
        cases += [RuleCase(inputs, cotangents) for cotangents in others]
    return tuple(dict.fromkeys([*cases, *used]))


def are_all_cases(
    params: Mapping[str, Any], operand_avals: Sequence[Any], result_avals: Sequence[Any]
) -> bool:
    """Whether `rule_cases` lists all cases there are without those that are used."""
    inputs, outputs = _perturbable(params, operand_avals, result_avals)
    return not params["symbolic_zeros"] or (sum(inputs) <= 2 and sum(outputs) <= 2)


def _perturbable(
    params: Mapping[str, Any], operand_avals: Sequence[Any], result_avals: Sequence[Any]
) -> tuple[Choice, Choice]:
    is_jvp = "jvp_jaxpr_fun" in params
    results = () if is_jvp else result_avals
    inputs = operand_avals[params["num_consts"] :]
    return tuple(map(is_perturbable, inputs)), tuple(map(is_perturbable, results))


def tangent_choices(can: Choice) -> list[Choice]:
    """List which tangents are given: all that there can be, then each alone if few."""
    places = [i for i, is_possible in enumerate(can) if is_possible]
    alone = [[i] for i in places] if 1 < len(places) <= MAX_ALONE else []
    return [tuple([i in each for i in range(len(can))]) for each in [places, *alone]]


# ---- what comes up when a program is differentiated -------------------------------


# By program, whose rules live as long: it is looked at when it is written, compared, and
# named by its fingerprint.
_found: weakref.WeakKeyDictionary[Any, dict[int, tuple[RuleCase, ...]]] = (
    weakref.WeakKeyDictionary()
)


def used_cases(jaxpr: Any) -> dict[int, tuple[RuleCase, ...]]:
    """Find what the rules in a program are given by `jax.vjp` with all its inputs.

    If that fails, what they are given by `jax.jvp` counts, and if that fails, too, nothing:
    how far JAX gets depends on what does not matter, such as dead code.

    Returns:
      Cases by the address of the callable that is the (forward) rule of an equation.
    """
    found = _found.get(jaxpr)
    if found is None:
        found = _found[jaxpr] = _used_cases(jaxpr)
    return found


def _used_cases(jaxpr: Any) -> dict[int, tuple[RuleCase, ...]]:
    for differentiate in (_pull_back, _push_forward):
        watch = _Watch()
        noting = watch.jaxpr(jaxpr)
        if not watch.rules:
            break
        with contextlib.ExitStack() as stack:
            for params in watch.rules:
                stack.enter_context(asking(params))
            try:
                _differentiate(noting, differentiate)
            except Exception:  # rules are the user's code, and some may be missing
                continue
        return {key: tuple(cases) for key, cases in watch.cases.items()}
    return {}


def _pull_back(function: Callable[..., Any], values: Sequence[Any]) -> Any:
    results, pull_back = jax.vjp(function, *values)
    return pull_back(results)


def _push_forward(function: Callable[..., Any], values: Sequence[Any]) -> Any:
    _, tangents = jax.jvp(function, values, values)
    return tangents


def _differentiate(
    jaxpr: Any, differentiate: Callable[[Callable[..., Any], Sequence[Any]], Any]
) -> None:
    body, _ = split_jaxpr(jaxpr)
    avals = [var.aval for var in body.invars]
    places = [i for i, aval in enumerate(avals) if is_perturbable(aval)]
    kept = [i for i, var in enumerate(body.outvars) if is_perturbable(var.aval)]
    run = as_function(jaxpr)

    def differentiated(*args: Any) -> Any:
        def of_floats(*floats: Any) -> list[Any]:
            full = list(args)
            for place, value in zip(places, floats):
                full[place] = value
            results = run(*full)
            return [results[i] for i in kept]

        made = differentiate(of_floats, [args[i] for i in places])
        return jax.tree.leaves(made)

    trace_flat(differentiated, avals, "differentiated")


class _Watch:
    """Copies programs so that their rules note what they are given."""

    def __init__(self) -> None:
        self.cases: dict[int, dict[RuleCase, None]] = {}
        self.rules: list[Mapping[str, Any]] = []
        self._copies: dict[int, Any] = {}

    def noted(self, jaxpr: Any) -> list[Mapping[str, Any]]:
        """List the params of the equations of a program whose rules are told of zeros."""
        self.jaxpr(jaxpr)
        return self.rules

    def jaxpr(self, jaxpr: Any) -> Any:
        """Copy a jaxpr, closed or open; what is shared stays shared."""
        copy = self._copies.get(id(jaxpr))
        if copy is None:
            body, consts = split_jaxpr(jaxpr)
            made = body.replace(eqns=[self._eqn(eqn) for eqn in body.eqns])
            copy = made if jaxpr is body else close_jaxpr(made, consts)
            self._copies[id(jaxpr)] = copy
        return copy

    def _eqn(self, eqn: Any) -> Any:
        params = {name: self._param(param) for name, param in eqn.params.items()}
        if params.get("symbolic_zeros"):
            self.rules.append(eqn.params)
            if "jvp_jaxpr_fun" in params:
                params["jvp_jaxpr_fun"] = self._jvp(eqn.params)
            else:
                forward, backward = self._vjp(eqn)
                params.update(fwd_jaxpr_thunk=forward, bwd=backward)
        return eqn.replace(params=params)

    def _param(self, param: Any) -> Any:
        if is_jaxpr(param):
            return self.jaxpr(param)
        if isinstance(param, tuple) and any(map(is_jaxpr, param)):
            items = [self._param(item) for item in param]
            make = getattr(param, "_make", tuple)  # NamedTuples of jaxprs stay such
            return make(items)
        return param

    def _note(self, params: Mapping[str, Any], case: RuleCase) -> None:
        self.cases.setdefault(id(asked_rule(params)), {})[case] = None

    def _jvp(self, params: Mapping[str, Any]) -> Any:
        def asked(*zeros: bool) -> Any:
            self._note(params, RuleCase(tuple([not zero for zero in zeros]), ()))
            return ask_rule(params, zeros)

        return _like(asked_rule(params), asked)

    def _vjp(self, eqn: Any) -> tuple[Any, Any]:
        params, avals = eqn.params, [var.aval for var in eqn.invars]
        latest: list[Choice] = [()]

        def asked_forward(*given: bool) -> Any:
            latest[0] = given
            return ask_rule(params, given)

        def asked_backward(*args: Any) -> Any:
            returned, given = pull_back(params, avals, latest[0], args)
            self._note(params, RuleCase(latest[0], given))
            return returned

        forward = _like(params["fwd_jaxpr_thunk"], asked_forward)
        return forward, _like(params["bwd"], asked_backward)


def choices_asked_for(eqns: Iterable[Any], code: types.CodeType) -> Iterator[Choice]:
    """Yield which operands were perturbed where JAX asked for rules of some code.

    Args:
      eqns: Equations that JAX may have differentiated, and those without rules.
      code: That of a function of `defvjp`.
    """
    for eqn in eqns:
        forward = eqn.params.get("fwd_jaxpr_thunk")
        if forward is not None and code in codes_behind(forward):
            yield from asked_choices(forward)


def bound_forward_rule(params: Mapping[str, Any]) -> Any:
    """Return the forward rule with which a call is bound, before it is an equation."""
    functions = params.get("subfuns", ())
    return functions[1] if len(functions) == 3 else None


def codes_behind(rule: Any) -> Iterator[types.CodeType]:
    """Yield the code of the functions that a rule, as JAX keeps it, calls."""
    waiting, seen = [rule], set[int]()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, _lu.WrappedFun):
            waiting += [part.f, part.f_transformed]
        elif isinstance(part, functools.partial):
            waiting += [part.func, *part.args, *part.keywords.values()]
        elif isinstance(part, types.FunctionType):
            yield part.__code__
            waiting += closed_over(part).values()


def _like(function: Any, call: Callable[..., Any]) -> Any:
    """Wrap a function as JAX keeps functions; what is no wrapper cannot be asked."""
    if not isinstance(function, _lu.WrappedFun):
        return function
    return _lu.wrap_init(call, debug_info=function.debug_info)
