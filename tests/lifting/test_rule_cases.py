"""Rules that are told which tangents are given come back for each choice of them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.custom_derivatives import SymbolicZero

import untrace
from untrace import jaxapi

X = np.linspace(0.5, 2.0, 3, dtype=np.float32)
LEVELS = pytest.mark.parametrize("level", ["lax", "api"])


def given(tangents: Any) -> tuple[int, ...]:
    flat = enumerate(tangents)
    return tuple([i for i, t in flat if not isinstance(t, SymbolicZero)])


def counting(n: int) -> Any:
    """A sum whose derivatives say in which case they were asked for."""

    @jax.custom_jvp
    def counted(*args: Any) -> Any:
        return sum(args[1:], args[0])

    @functools.partial(counted.defjvp, symbolic_zeros=True)
    def counted_jvp(primals: Any, tangents: Any) -> Any:
        which = given(tangents)
        factor = float(sum(2**i for i in which))
        return counted(*primals), sum(tangents[i] for i in which) * factor

    return counted


def lazy(n_results: int) -> Any:
    """A function whose rules say what they were told, and branch on a residual."""

    @jax.custom_vjp
    def asked(x: Any, y: Any, flags: Any) -> Any:
        return [x * y * i + flags for i in range(1, n_results + 1)]

    def forward(x: Any, y: Any, flags: Any) -> Any:
        results = asked(x.value, y.value, flags.value)
        return results, (x.value, y.value, x.perturbed, y.perturbed)

    def backward(residuals: Any, cotangents: Any) -> Any:
        x, y, by_x, by_y = residuals
        which = given(cotangents)
        total = sum(cotangents[i] for i in which) * float(sum(3**i for i in which))
        dx = total * y * (5.0 if by_y else 7.0) if by_x else None
        dy = total * x * (11.0 if by_x else 13.0) if by_y else None
        return dx, dy, None

    asked.defvjp(forward, backward, symbolic_zeros=True)
    return asked


def recovered(function: Callable[..., Any], level: str, *args: Any) -> Any:
    src = untrace.source(function, level=level)(*args)
    assert src.report.is_verified, str(src)
    scope: dict[str, Any] = {}
    exec(compile(str(src), "recovered.py", "exec"), scope)
    return src, scope[src.name]


def check_gradients(
    function: Any, made: Any, args: Any, choices: list[tuple[int, ...]]
) -> None:
    for choice in choices:
        wanted = jax.grad(function, choice)(*args)
        jax.tree.map(
            np.testing.assert_array_equal, wanted, jax.grad(made, choice)(*args)
        )


@LEVELS
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_each_tangent_alone_and_all(level: str, n: int) -> None:
    f = counting(n)

    def program(*args: Any) -> Any:
        return jnp.sum(f(*args))

    src, made = recovered(program, level, *[X] * n)
    alone = [(i,) for i in range(n)]
    check_gradients(program, made, [X] * n, [*alone, tuple(range(n))])
    assert ("symbolic zeros" in " ".join(src.report.unproved)) == (n > 2)


@LEVELS
def test_tangents_that_the_program_gives_are_found(level: str) -> None:
    f = counting(6)

    def program(x: Any, y: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            return f(1.0, carry, 2.0, 3.0, row, 4.0), None

        total, _ = jax.lax.scan(step, jnp.sum(x), y)
        return total

    args = (X, X)
    _, made = recovered(program, level, *args)
    check_gradients(program, made, args, [(0, 1)])


@LEVELS
@pytest.mark.parametrize("n_results", [1, 2])
def test_operands_and_cotangents(level: str, n_results: int) -> None:
    f = lazy(n_results)
    for kept in {0, n_results - 1, None}:

        def program(x: Any, y: Any, kept: Any = kept) -> Any:
            results = f(x, y, jnp.arange(3))
            return sum(
                map(jnp.sum, results if kept is None else results[kept : kept + 1])
            )

        src, made = recovered(program, level, X, X)
        check_gradients(program, made, (X, X), [(0,), (1,), (0, 1)])
        assert "cannot be traced" not in " ".join(src.report.unproved)


def test_a_case_that_raises_is_kept_beside_others() -> None:
    @jax.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y

    @functools.partial(f.defjvp, symbolic_zeros=True)
    def f_jvp(primals: Any, tangents: Any) -> Any:
        if given(tangents) != (0,):
            raise ValueError("only by the first")
        return f(*primals), tangents[0] * primals[1]

    def program(x: Any, y: Any) -> Any:
        return jnp.sum(f(x, y))

    _, made = recovered(program, "lax", X, X)
    check_gradients(program, made, (X, X), [(0,)])
    for choice in ((1,), (0, 1)):
        with pytest.raises(ValueError, match="only by the first"):
            jax.grad(made, choice)(X, X)


def test_other_choices_take_the_next_larger_rule_with_zeros() -> None:
    @jax.custom_jvp
    def f(*args: Any) -> Any:
        return sum(x * i for i, x in enumerate(args))

    @functools.partial(f.defjvp, symbolic_zeros=True)
    def f_jvp(primals: Any, tangents: Any) -> Any:
        return f(*primals), sum(tangents[i] * i for i in given(tangents))

    def program(*args: Any) -> Any:
        return jnp.sum(f(*args))

    _, made = recovered(program, "lax", *[X] * 6)
    check_gradients(program, made, [X] * 6, [(1, 4), (0, 2, 5), (3,)])


def test_asking_leaves_no_trace() -> None:
    """JAX keeps the trees of the last forward rule: they must be of the last that JAX asked."""

    @jax.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return x * y

    def forward(x: Any, y: Any) -> Any:
        kept = (y.value,) * (1 + x.perturbed + 2 * y.perturbed)
        return f(x.value, y.value), kept

    def backward(kept: Any, ct: Any) -> Any:
        return ct * len(kept), ct * len(kept)

    f.defvjp(forward, backward, symbolic_zeros=True)
    closed = jax.make_jaxpr(f)(X, X)

    def by(choice: tuple[int, ...]) -> Any:
        def loss(*args: Any) -> Any:
            return jnp.sum(jaxapi.eval_jaxpr(closed.jaxpr, closed.consts, *args)[0])

        return jax.grad(loss, choice)(X, X)

    before = by((0,))
    assert untrace.source(closed).report.is_verified
    jax.tree.map(np.testing.assert_array_equal, by((0,)), before)
    np.testing.assert_array_equal(by((1,))[0], 3 * np.ones(3))


def test_threads_may_ask_for_one_rule(request: pytest.FixtureRequest) -> None:
    """Rules of cached functions are those of all threads, and JAX keeps one tree of them."""

    def traced() -> Any:
        return jax.make_jaxpr(lazy(2))(X, X, np.arange(3)).jaxpr.eqns[0]

    def ask(eqn: Any, case: jaxapi.RuleCase) -> str:
        avals = [var.aval for var in eqn.invars]
        with jaxapi.asking(eqn.params):
            forward = jaxapi.custom_vjp_forward(eqn.params, avals, case.given)
            backward = jaxapi.custom_vjp_backward(eqn.params, forward, case.cotangents)
        return f"{forward.residuals} {forward.constants} {backward.jaxpr}"

    first = traced()
    avals = [[var.aval for var in each] for each in (first.invars, first.outvars)]
    cases = jaxapi.rule_cases(first.params, *avals)
    assert len(cases) == 9
    alone = [ask(first, case) for case in cases]
    interval = sys.getswitchinterval()
    request.addfinalizer(lambda: sys.setswitchinterval(interval))
    sys.setswitchinterval(1e-5)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(10):
            eqn = traced()
            assert list(pool.map(functools.partial(ask, eqn), cases)) == alone
