"""What rules cost: each is traced a few times, however often and deep it occurs.

Counted are traces of rules, by the writer and the checker together, and equations that
the checker goes through.
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
from jax.custom_batching import custom_vmap

import untrace
from untrace import jaxapi
from untrace.verification.compare import compare
from untrace.verification.equivalence import equivalent
from untrace.verification.fingerprint import (
    FingerprintMaker,  # pyright: ignore[reportPrivateUsage]
    fingerprint,
)
from untrace.verification.graph import Graph
from untrace.verification.rules import identify_rules

Counted = Callable[[], int]


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Return how many rules have been traced since the last time."""
    traced: list[Any] = []
    for name in ("custom_jvp_rule", "custom_vjp_forward", "batching_rule"):
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


# ---- rules that call functions with rules ------------------------------------------


def forward_layer(below: Any, width: int) -> Any:
    @jax.custom_jvp
    def layer(x: Any) -> Any:
        return x * 2.0

    @layer.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return layer(x), layer(t) + sum(below(x) * t for _ in range(width))

    return layer


def backward_layer(below: Any, width: int) -> Any:
    @jax.custom_vjp
    def layer(x: Any) -> Any:
        return x * 2.0

    def fwd(x: Any) -> Any:
        return layer(x), sum(below(x) for _ in range(width))

    def bwd(residual: Any, cotangent: Any) -> Any:
        return (layer(residual) * cotangent + below(cotangent),)

    layer.defvjp(fwd, bwd)
    return layer


def chain(layer: Any, depth: int, last: Any = jnp.sin) -> Any:
    """Return a function whose rule calls the next one three times, and so on."""
    below = last
    for _ in range(depth):
        below = layer(below, 3)
    return below


def lattice(layer: Any, depth: int, last: Any = jnp.sin) -> Any:
    """Return a function whose rule calls the next two, which both call the two after."""
    lower, upper = last, jnp.tan
    for _ in range(depth):
        lower, upper = upper, layer(lambda x, f=lower, g=upper: f(x) + g(x), 1)
    return upper


def traced_twice(function: Any) -> Any:
    """Trace a program that calls a function twice."""
    return jax.make_jaxpr(lambda x: function(function(x)))(1.0)


CHECKS: list[Callable[[Any, Any], Any]] = [
    lambda first, second: compare(first, second) is None,
    lambda first, second: equivalent(first, second) is None,
    lambda first, second: fingerprint(first) == fingerprint(second),
]


@pytest.mark.parametrize("check", CHECKS, ids=["compare", "equivalent", "fingerprint"])
@pytest.mark.parametrize("layer", [forward_layer, backward_layer])
@pytest.mark.parametrize("shape", [chain, lattice])
def test_traces_grow_with_the_rules(
    shape: Any, layer: Any, check: Any, count: Counted
) -> None:
    costs: list[int] = []
    for depth in (2, 4, 8):
        function, other = (shape(layer, depth, last) for last in (jnp.sin, jnp.cos))
        first, second = traced_twice(function), traced_twice(function)
        count()
        assert check(first, second)
        costs.append(count())
        assert not check(first, traced_twice(other))
    assert costs[2] <= 2 * costs[1] <= 4 * costs[0] <= 32


@pytest.mark.parametrize("layer", [forward_layer, backward_layer])
@pytest.mark.parametrize("shape", [chain, lattice])
def test_each_rule_is_written_once(shape: Any, layer: Any, count: Counted) -> None:
    src = untrace.source(shape(layer, 8), level="lax")(1.0)
    assert src.report.strength == "identical"
    assert count() <= 32


# ---- bodies around rules that lead back to themselves ------------------------------

Nest = Callable[[Any], Any]


def in_loop(below: Any) -> Any:
    return lambda x: jax.lax.scan(lambda c, _: (below(c) + 1.0, None), x, length=2)[0]


def in_branches(below: Any) -> Any:
    shared = jax.jit(below)
    return lambda x: jax.lax.cond(
        x > 0.0, lambda y: shared(y) * 2.0, lambda y: shared(y) * 3.0, x
    )


def in_while(below: Any) -> Any:
    return lambda x: jax.lax.while_loop(
        lambda c: jnp.sum(c) < 9.0, lambda c: below(c) + 1.0, x
    )


def in_remat(below: Any) -> Any:
    return jax.checkpoint(lambda x: below(x) * 2.0)


def in_jit_twice(below: Any) -> Any:
    return jax.jit(lambda x: below(below(x)) * 2.0)


NESTS: list[Nest] = [in_loop, in_while, in_remat]


@pytest.fixture
def visits(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Return how many equations have been gone through since the last time."""
    seen: list[Any] = []
    for maker, name in ((Graph, "_equation"), (FingerprintMaker, "equation")):
        original = getattr(maker, name)

        def counted(*args: Any, original: Any = original) -> Any:
            seen.append(args[1])
            return original(*args)

        monkeypatch.setattr(maker, name, counted)

    def since() -> int:
        n = len(seen)
        seen.clear()
        return n

    return since


def nested(nest: Nest, innermost: Any, depth: int) -> Any:
    for _ in range(depth):
        innermost = nest(innermost)
    return jax.make_jaxpr(innermost)(1.0)


@pytest.mark.parametrize("kept", [forward_kept, backward_kept])
@pytest.mark.parametrize("nest", NESTS)
def test_nested_bodies_are_gone_through_a_few_times(
    nest: Nest, kept: Any, visits: Counted
) -> None:
    costs: list[int] = []
    for depth in (3, 6, 12):
        first, second = (nested(nest, kept, depth) for _ in range(2))
        visits()
        assert equivalent(first, second) is None
        costs.append(visits())
        other = nested(nest, lambda x: kept(x) * 2.0, depth)
        assert equivalent(first, other) is not None
    assert costs[2] <= 2 * costs[1] <= 4 * costs[0] <= 280


@pytest.mark.parametrize("kept", [forward_kept, backward_kept])
@pytest.mark.parametrize("nest", [*NESTS, in_branches, in_jit_twice])
def test_bodies_that_are_called_twice_are_fingerprinted_once(
    nest: Nest, kept: Any, visits: Counted
) -> None:
    costs: list[int] = []
    for depth in (3, 6, 12):
        jaxpr = nested(nest, kept, depth)
        visits()
        name = fingerprint(jaxpr)
        costs.append(visits())
        assert name != fingerprint(nested(nest, lambda x: kept(x) * 2.0, depth))
    assert costs[2] <= 2 * costs[1] <= 4 * costs[0] <= 200


def branching(scale: float, last: Any, depth: int = 0) -> Any:
    """Return a long function whose rule makes four others like it, and so without end."""

    @jax.custom_jvp
    def long(x: Any) -> Any:
        for _ in range(12):
            x = jnp.sin(x) * scale
        return x

    @long.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        parts = [branching(scale + n, last, depth + 1)(x) for n in range(4)]
        return long(x), (last if depth == 1 else jnp.sin)(sum(parts)) * t

    return long


def test_rules_that_make_several_others_are_not_all_followed(count: Counted) -> None:
    """Four long functions in each, four deep: 170 traces of two programs otherwise."""
    first, second, other = (
        jax.make_jaxpr(branching(1.0, last))(1.0)
        for last in (jnp.sin, jnp.sin, jnp.cos)
    )
    unproved: list[str] = []
    assert equivalent(first, second, unproved) is None
    assert "rules of rules of rules" in str(unproved)
    assert count() <= 90
    assert equivalent(first, other) is not None
    assert fingerprint(first) == fingerprint(second) != fingerprint(other)


# ---- batching rules ----------------------------------------------------------------


def test_a_batching_rule_may_call_its_own_function(count: Counted) -> None:
    sine = custom_vmap(jnp.sin)
    sine.def_vmap(lambda size, flags, x: (sine(x), True))
    first, second = (jax.make_jaxpr(lambda x: sine(x))(1.0) for _ in range(2))
    unproved: list[str] = []
    assert compare(first, second, unproved) is None
    assert equivalent(first, second, unproved) is None
    assert fingerprint(first) == fingerprint(second)
    assert "batches of batches" in str(unproved)
    assert count() <= 32


def endless(function: Any, last: Any = jnp.sin) -> Any:
    """Return a function whose batching rule makes one like it."""
    made = custom_vmap(function)

    @made.def_vmap
    def rule(size: int, flags: Any, *args: Any) -> Any:
        return last(endless(jax.vmap(function), last)(*args)), True

    return made


@pytest.mark.parametrize("n", [1, 3])
def test_a_batching_rule_may_make_others_without_end(n: int, count: Counted) -> None:
    def program(last: Any) -> Any:
        return jax.make_jaxpr(lambda *args: endless(total, last)(*args))(*[1.0] * n)

    def total(*args: Any) -> Any:
        return sum(jnp.sin(x) for x in args)

    first, second, other = program(jnp.sin), program(jnp.sin), program(jnp.cos)
    assert compare(first, second) is None and compare(first, other) is not None
    assert equivalent(first, second) is None and equivalent(first, other) is not None
    assert fingerprint(first) == fingerprint(second) != fingerprint(other)
    assert count() <= 12 * (n + 2) ** 2
    src = untrace.source(lambda *args: endless(total)(*args), level="lax")(*[1.0] * n)
    assert src.report.strength == "identical"


def test_a_body_with_a_rule_that_calls_it_is_the_same_in_any_order():
    """The rule of `det` calls a jitted function, which the rule of that calls again."""
    x = jnp.eye(3)

    def program(x):
        return jnp.linalg.det(x) + jnp.linalg.slogdet(x.T)[1]

    for function in (jnp.linalg.det, program):
        first = jax.make_jaxpr(lambda x, f=function: f(x))(x)
        jax.clear_caches()
        second = jax.make_jaxpr(lambda x, f=function: f(x))(x)
        assert equivalent(first, second) is None
        assert fingerprint(first) == fingerprint(second)


def test_backward_rules_are_traced_once_by_the_writer_and_the_checker() -> None:
    traced: list[Any] = []

    @jax.custom_vjp
    def kept(x: Any) -> Any:
        return jnp.sin(x)

    def backward(x: Any, cotangent: Any) -> Any:
        traced.append(cotangent)
        return (cotangent * jnp.cos(x),)

    kept.defvjp(lambda x: (jnp.sin(x), x), backward)
    src = untrace.source(lambda x: kept(x) * 2.0, level="lax")(1.0)
    assert src.report.strength == "identical"
    assert len(traced) == 1
