"""Roots found by `jax.lax.custom_root`, batched and differentiated."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import untrace
from untrace.verification.compare import compare


def recovered(function: Any, *args: Any) -> Any:
    """Recover a program and check it; return the source."""
    src = untrace.source(function, level="lax")(*args)
    assert src.report.strength == "identical", f"{src.report}\n{src}"
    return src


def square_root(a: Any, guess: Any = 1.0, power: int = 2) -> Any:
    """Find a root by a few of Newton's steps."""

    def solve(f: Any, x: Any) -> Any:
        return lax.fori_loop(0, 5, lambda _, x: x - f(x) / jax.grad(f)(x), x)

    return lax.custom_root(
        lambda x: x**power - a, guess, solve, lambda g, y: y / g(1.0)
    )


def pair_of_roots(a: Any, b: Any) -> Any:
    """Find two roots at once, and say how many steps it took."""

    def solve(f: Any, xs: Any) -> Any:
        x, y = f(xs)
        return (xs[0] - x / 2.0, xs[1] - y / 2.0), jnp.float32(1)

    def tangent_solve(g: Any, ys: Any) -> Any:
        return jax.tree.map(jnp.divide, ys, g((1.0, 1.0)))

    f = lambda xs: (xs[0] ** 2 - a, xs[1] ** 3 - b * a)
    return lax.custom_root(f, (a, b), solve, tangent_solve, has_aux=True)


ROOTS: dict[str, tuple[Any, ...]] = {
    "plain": (square_root, 2.0),
    "guess not batched": (jax.vmap(square_root), jnp.ones(2)),
    "only the guess batched": (
        jax.vmap(square_root, in_axes=(None, 0)),
        2.0,
        jnp.ones(2),
    ),
    "batched twice": (jax.vmap(jax.vmap(square_root)), jnp.ones((2, 3))),
    "gradient of a batch": (
        jax.grad(lambda a: jax.vmap(square_root)(a).sum()),
        jnp.ones(2),
    ),
    "batch of gradients": (jax.vmap(jax.grad(square_root)), jnp.ones(2)),
    "hessian": (jax.hessian(square_root), 2.0),
    "auxiliary result": (pair_of_roots, 2.0, 3.0),
    "auxiliary result, batched": (
        jax.vmap(pair_of_roots, in_axes=(0, None)),
        jnp.ones(2),
        3.0,
    ),
    "auxiliary result, derived": (
        jax.grad(lambda a: pair_of_roots(a, a)[0][1]),
        2.0,
    ),
}


@pytest.mark.parametrize("case", ROOTS)
def test_a_root_comes_back(case: str) -> None:
    function, *args = ROOTS[case]
    recovered(function, *args)


def test_roots_of_different_functions_are_told_apart() -> None:
    batched = lambda power: jax.vmap(lambda a: square_root(a, power=power))
    squares, cubes = (jax.make_jaxpr(batched(n))(jnp.ones(2)) for n in (2, 3))
    assert compare(squares, cubes) is not None
    assert compare(squares, jax.make_jaxpr(batched(2))(jnp.ones(2))) is None


def test_functions_that_close_over_equal_arrays() -> None:
    a, b = jnp.arange(1.0, 4.0), jnp.arange(1.0, 4.0)

    def root(x: Any) -> Any:
        solve: Any = lambda f, x: lax.fori_loop(0, 3, lambda _, z: z - f(z) * a / b, x)
        return lax.custom_root(lambda z: z * a - b, x, solve, lambda g, y: y / g(b))

    recovered(lambda x: root(x), jnp.ones(3))
    recovered(lambda x: jax.vmap(root)(x), jnp.ones((2, 3)))
    recovered(lambda x: jax.grad(lambda x: root(x).sum())(x), jnp.ones(3))
