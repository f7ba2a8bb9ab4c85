"""Derivative rules, traced so that they can be compared.

A `custom_jvp_call` or `custom_vjp_call` carries its rules as Python callables. They
are traced with every tangent instantiated and every operand perturbed; what comes
back are jaxprs and a few facts about them, which are compared like any other.
"""

from __future__ import annotations

from typing import Any

from untrace import jaxapi

# Params that hold the callables, per primitive.
OPAQUE_PARAMS: dict[str, frozenset[str]] = {
    "custom_jvp_call": frozenset({"jvp_jaxpr_fun"}),
    "custom_vjp_call": frozenset({"fwd_jaxpr_thunk", "bwd", "out_trees"}),
}

Rules = tuple[tuple[str, Any], ...]


def trace_rules(eqn: Any) -> Rules:
    """Trace the derivative rules of an equation.

    Returns:
      Label and value of each rule: jaxprs and plain facts about them. A rule that
      raises is represented by the exception, under the label "error".
    """
    trace = _trace_jvp if eqn.primitive.name == "custom_jvp_call" else _trace_vjp
    with jaxapi.rule_context(eqn.ctx):
        try:
            return trace(eqn)
        except Exception as error:  # the rule is the user's code and may raise anything
            return (("error", f"{type(error).__name__}: {error}"),)


def _trace_jvp(eqn: Any) -> Rules:
    jaxpr, zeros = jaxapi.custom_jvp_rule(eqn.params, len(eqn.invars))
    return (("jvp", jaxpr), ("jvp zeros", tuple(zeros)))


def _trace_vjp(eqn: Any) -> Rules:
    rules = jaxapi.custom_vjp_rules(eqn.params, [v.aval for v in eqn.invars])
    return (
        ("fwd", rules.forward),
        ("residuals", rules.residuals),
        ("bwd", rules.backward),
        ("bwd zeros", rules.zeros),
        ("bwd logs", rules.logs),
    )


def name_rule(eqn: Any) -> str:
    """Name the function whose derivative an equation customises."""
    body, _ = jaxapi.split_jaxpr(eqn.params["call_jaxpr"])
    name = getattr(body.debug_info, "func_name", None) or "function"
    return f"{eqn.primitive.name} of `{name}`"
