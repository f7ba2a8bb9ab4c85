"""Derivative rules are traced to compare them; JAX can use them afterwards as before."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.verification.rules import cases_of, trace_rules

X = np.arange(1, 4, dtype=np.float32)


@jax.custom_vjp
def scaled(x: Any, scale: Any) -> Any:
    return x * scale


def _forward(x: Any, scale: Any) -> Any:
    if scale.perturbed:
        raise AssertionError("the scale is no variable")
    return x.value * scale.value, (scale.value,)


def _backward(residuals: Any, cotangent: Any) -> Any:
    return cotangent * residuals[0], None


scaled.defvjp(_forward, _backward, symbolic_zeros=True)


def test_a_rule_that_raises_for_some_tangents_is_kept_for_others() -> None:
    closed = jax.make_jaxpr(scaled)(X, jnp.float32(2.0))

    def along(x: Any) -> Any:
        return jnp.sum(jaxapi.eval_jaxpr(closed.jaxpr, closed.consts, x, 2.0)[0])

    before = jax.grad(along)(X)
    (eqn,) = closed.jaxpr.eqns
    ((label, error),) = trace_rules(eqn, True, cases_of(eqn, jaxapi.RuleCases())[0])
    assert label == "error" and "no variable" in error
    np.testing.assert_array_equal(jax.grad(along)(X), before)


def _counted() -> tuple[Any, list[str]]:
    ran: list[str] = []

    @jax.custom_vjp
    def squared(x: Any) -> Any:
        return x * x

    def forward(x: Any) -> Any:
        ran.append("forward")
        return x.value * x.value, x.value

    def backward(x: Any, cotangent: Any) -> Any:
        ran.append("backward")
        return (2.0 * x * cotangent,)

    squared.defvjp(forward, backward, symbolic_zeros=True)
    return squared, ran


def test_a_call_that_is_made_again_has_the_traces_of_the_first() -> None:
    squared, ran = _counted()
    closed = jax.make_jaxpr(squared)(X)
    again = jax.make_jaxpr(jaxapi.as_function(closed))(X)
    both = [each.jaxpr.eqns[0] for each in (closed, again)]
    texts = [
        str(trace_rules(eqn, True, cases_of(eqn, jaxapi.RuleCases())[0]))
        for eqn in both
    ]
    assert texts[0] == texts[1]
    assert ran == ["forward", "backward"]


def test_rules_are_traced_once_for_their_cases_and_for_the_proof() -> None:
    squared, ran = _counted()
    closed = jax.make_jaxpr(squared)(X)
    (eqn,) = closed.jaxpr.eqns
    ((case,),) = jaxapi.RuleCases(closed).find().values()
    trace_rules(eqn, True, case)
    assert ran == ["forward", "backward"]
    jax.grad(lambda x: jnp.sum(jaxapi.as_function(closed)(x)[0]))(X)
    assert ran == ["forward", "backward"] * 2
