"""Find derivative rules that JAX itself cannot use, because what they close over is lost.

Such a rule closes over a value of a trace that has ended (see `jaxapi.lost_capture`),
and no text can name the value. The functions of a program are written inside out, so
that a value not found may yet be around; only a walk from the outside tells. It is
made after writing has failed, and rules that it finds are written as ones that raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from untrace import jaxapi


class LostRules:
    """The rules in a program that close over lost values; false if there are none."""

    def __init__(self, jaxpr: Any) -> None:
        self._errors: dict[Any, RuntimeError] = {}
        self._seen: set[Any] = set()
        self._alive: list[Any] = []  # what `_seen` and `_errors` know by address
        self._jaxpr(jaxpr, (), [])

    def __bool__(self) -> bool:
        return bool(self._errors)

    def error(self, rules: Any) -> RuntimeError | None:
        """Return the error that stands for rules which are lost, None for others."""
        return self._errors.get(jaxapi.rule_identity(rules))

    def _jaxpr(
        self, jaxpr: Any, around: tuple[set[Any], ...], names: list[str]
    ) -> None:
        """Walk a jaxpr; `around` has the variables of those around it."""
        if id(jaxpr) in self._seen:
            return
        self._seen.add(id(jaxpr))
        self._alive.append(jaxpr)
        body, _ = jaxapi.split_jaxpr(jaxpr)
        own = {*body.invars, *body.constvars}
        own.update(var for eqn in body.eqns for var in eqn.outvars)
        for eqn in body.eqns:
            if eqn.primitive.name in ("custom_jvp_call", "custom_vjp_call"):
                self._rules(eqn, (*around, own), names)
        for inner in jaxapi.sub_jaxprs_of(body.eqns):
            self._jaxpr(inner, (*around, own), names)

    def _rules(self, eqn: Any, around: tuple[set[Any], ...], names: list[str]) -> None:
        """Trace the rules of an equation, and walk them if they are not lost."""
        identity = jaxapi.rule_identity(rule_callables(eqn))
        key = (identity, tuple(str(var.aval) for var in eqn.invars))
        body, _ = jaxapi.split_jaxpr(eqn.params["call_jaxpr"])
        name = body.debug_info.func_name or ""
        if key in self._seen or not jaxapi.follows_rules(names, name, body):
            return
        self._seen.add(key)
        self._alive.append(eqn)
        try:
            with jaxapi.rule_context(eqn.ctx):
                traced = _trace(eqn)
        except Exception:  # the user's code; it fails again when it is written
            return
        self._alive.append(traced)
        error = jaxapi.lost_capture(
            traced, lambda var: any(var in own for own in around)
        )
        if error is not None:
            self._errors[identity] = error
            return
        for rule in traced:
            self._jaxpr(rule, around, [*names, name])


def rule_callables(eqn: Any) -> Any:
    """Return the params of an equation that are its rules."""
    params = jaxapi.first_call(eqn.params)
    if params.get("jvp_jaxpr_fun") is not None:
        return params["jvp_jaxpr_fun"]
    return params["fwd_jaxpr_thunk"], params["bwd"]


def _trace(eqn: Any) -> Sequence[Any]:
    avals = [var.aval for var in eqn.invars]
    case = jaxapi.rule_cases(eqn.params, avals, [var.aval for var in eqn.outvars])[0]
    if eqn.primitive.name == "custom_jvp_call":
        return [jaxapi.custom_jvp_rule(eqn.params, case.given)[0]]
    with jaxapi.asking(eqn.params):
        forward = jaxapi.custom_vjp_forward(eqn.params, avals, case.given)
        backward = jaxapi.custom_vjp_backward(eqn.params, forward, case.cotangents)
    return [forward.jaxpr, backward.jaxpr]
