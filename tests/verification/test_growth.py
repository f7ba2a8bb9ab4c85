"""What rules cost: each is traced a few times, however often and deep it occurs.

Counted are traces of rules, by the writer and the checker together.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax._src import custom_derivatives
from jax._src.interpreters import partial_eval

import untrace
from untrace import jaxapi
from untrace.verification.rules import identify_rules

Counted = Callable[[], int]


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Return how many rules have been traced since the last time."""
    traced: list[Any] = []
    for name in ("custom_jvp_rule", "custom_vjp_rules", "batching_rule"):
        original = getattr(jaxapi, name)

        def counted(*args: Any, original: Any = original) -> Any:
            traced.append(original)
            return original(*args)

        monkeypatch.setattr(jaxapi, name, counted)

    def since() -> int:
        n = len(traced)
        traced.clear()
        return n

    return since


# ---- rules of calls from which dead results were removed ----------------------------


@jax.custom_jvp
def forward_kept(x: Any) -> Any:
    return x * 1.0


@forward_kept.defjvp
def _forward_kept_jvp(primals: Any, tangents: Any) -> Any:
    return forward_kept(primals[0]), forward_kept(tangents[0])


@jax.custom_vjp
def backward_kept(x: Any) -> Any:
    return x * 1.0


def _backward_kept_fwd(x: Any) -> Any:
    return backward_kept(backward_kept(x)), None


def _backward_kept_bwd(residuals: None, cotangent: Any) -> Any:
    return (backward_kept(backward_kept(cotangent)),)


backward_kept.defvjp(_backward_kept_fwd, _backward_kept_bwd)


@pytest.mark.parametrize("kept", [forward_kept, backward_kept])
def test_rules_that_lead_to_themselves_are_known_again(
    kept: Any, count: Counted
) -> None:
    src = untrace.source(
        jax.grad(jax.checkpoint(lambda x: jnp.sin(kept(x)))), level="lax"
    )(1.0)
    assert src.report.strength == "identical"
    assert count() <= 10


@jax.custom_jvp
def two(x: Any) -> Any:
    return x * 1.0, x * 1.0


@two.defjvp
def _two_jvp(primals: Any, tangents: Any) -> Any:
    return two(primals[0]), (tangents[0] * 2.0, tangents[0] * 3.0)


@jax.custom_vjp
def pair(x: Any) -> Any:
    return x * 1.0, x * 1.0


pair.defvjp(lambda x: (pair(x), None), lambda _, ct: (2.0 * ct[0] + 3.0 * ct[1],))


@pytest.mark.parametrize("function", [two, pair])
def test_rules_that_lost_other_results_stay_apart(function: Any) -> None:
    first, again, second = (_with_results(function, n) for n in (0, 0, 1))
    assert identify_rules(first, True) == identify_rules(again, True)
    assert identify_rules(first, True) != identify_rules(second, True)


def _with_results(function: Any, used: int) -> Any:
    """Return the equation of a call of which one result is used."""
    closed = jax.make_jaxpr(function)(1.0)
    used_results = [i == used for i in range(2)]
    jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, used_results)
    return jaxpr.eqns[0]


def test_rules_read_one_thing_of_what_lost_its_results() -> None:
    jvp = inspect.getsource(custom_derivatives._custom_jvp_call_dce)
    thunk = jvp[jvp.index("def dce_jvp_jaxpr_thunk") : jvp.index("outvars =")]
    assert thunk.count("eqn") == thunk.count('eqn.params["symbolic_zeros"]') == 1
    vjp = inspect.getsource(custom_derivatives._custom_vjp_call_dce)
    bwd = vjp[vjp.index("def dce_bwd") : vjp.index("dce_bwd_wrapped")]
    assert bwd.count("call_jaxpr") == bwd.count("call_jaxpr.out_avals") == 1
