"""Find derivative rules that JAX itself cannot use, because what they close over is lost.

Such a rule closes over a value of a trace that has ended (see `jaxapi.lost_capture`),
and no text can name the value. The functions of a program are written inside out, so
that a value not found may yet be around; only a walk from the outside tells. It is
made after writing has failed, and rules that it finds are written as ones that raise.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Generator, Sequence
from typing import Any

from untrace import jaxapi

_lost: contextvars.ContextVar[dict[Any, RuntimeError]] = contextvars.ContextVar(
    "untrace_lost_rules"
)


@contextlib.contextmanager
def known_lost_rules(jaxpr: Any) -> Generator[bool]:
    """Let `lost_rule` know the rules of a program; yield whether any are lost."""
    walk = _Walk()
    walk.jaxpr(jaxpr, (), [])
    token = _lost.set(walk.lost)
    try:
        yield bool(walk.lost)
    finally:
        _lost.reset(token)


def lost_rule(rules: Any) -> RuntimeError | None:
    """Return the error that stands for rules which are lost, None for other rules."""
    known = _lost.get({})
    return known.get(jaxapi.rule_identity(rules)) if known else None


class _Walk:
    def __init__(self) -> None:
        self.lost: dict[Any, RuntimeError] = {}
        self.seen: set[Any] = set()
        self.alive: list[Any] = []

    def jaxpr(self, jaxpr: Any, around: tuple[set[Any], ...], names: list[str]) -> None:
        """Walk a jaxpr; `around` has the variables of those around it."""
        if id(jaxpr) in self.seen:
            return
        self.seen.add(id(jaxpr))
        self.alive.append(jaxpr)
        body, _ = jaxapi.split_jaxpr(jaxpr)
        own = {*body.invars, *body.constvars}
        own.update(var for eqn in body.eqns for var in eqn.outvars)
        for eqn in body.eqns:
            if eqn.primitive.name in ("custom_jvp_call", "custom_vjp_call"):
                self.rules(eqn, (*around, own), names)
        for inner in jaxapi.sub_jaxprs(body):
            self.jaxpr(inner, (*around, own), names)

    def rules(self, eqn: Any, around: tuple[set[Any], ...], names: list[str]) -> None:
        """Trace the rules of an equation, and walk them if they are not lost."""
        identity = jaxapi.rule_identity(rule_callables(eqn))
        key = (identity, tuple(str(var.aval) for var in eqn.invars))
        body, _ = jaxapi.split_jaxpr(eqn.params["call_jaxpr"])
        name = body.debug_info.func_name or ""
        if key in self.seen or not jaxapi.follows_rules(names, name, body):
            return
        self.seen.add(key)
        self.alive.append(eqn)
        try:
            with jaxapi.rule_context(eqn.ctx):
                traced = _trace(eqn)
        except Exception:  # the user's code; it fails again when it is written
            return
        self.alive.append(traced)
        error = jaxapi.lost_capture(
            traced, lambda var: any(var in own for own in around)
        )
        if error is not None:
            self.lost[identity] = error
            return
        for rule in traced:
            self.jaxpr(rule, around, [*names, name])


def rule_callables(eqn: Any) -> Any:
    """Return the params of an equation that are its rules."""
    if eqn.params.get("jvp_jaxpr_fun") is not None:
        return eqn.params["jvp_jaxpr_fun"]
    return eqn.params["fwd_jaxpr_thunk"], eqn.params["bwd"]


def _trace(eqn: Any) -> Sequence[Any]:
    if eqn.primitive.name == "custom_jvp_call":
        return [jaxapi.custom_jvp_rule(eqn.params, len(eqn.invars))[0]]
    avals = [var.aval for var in eqn.invars]
    rules = jaxapi.custom_vjp_rules(eqn.params, avals)
    return [rules.forward, rules.backward]
