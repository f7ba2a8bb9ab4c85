"""Functions that return their derivative rule come back as such."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import untrace

X, W = np.ones((4, 4), np.float32), np.ones((4, 4), np.float32)


@jax.custom_gradient
def scaled(x: Any) -> Any:
    y = jnp.sin(x)
    return y, lambda g: (g * 2 * y,)


@jax.custom_gradient
def layer(x: Any, w: Any) -> Any:
    h = jnp.tanh(x @ w)

    def rule(g: Any) -> Any:
        g = g * (1 - h**2)
        return g @ w.T, x.T @ g

    return h, rule


@jax.custom_gradient
def pulled(params: Any) -> Any:
    y, pull = jax.vjp(jnp.sin, params["x"])
    return {"y": y}, lambda g: ({"x": pull(g["y"])[0]},)


def recover(function: Callable[..., Any]) -> str:
    src = untrace.source(function)(X, W)
    assert src.report.strength == "identical", f"{src.report}\n{src}"
    assert "from its equations" not in str(src), str(src)
    return str(src)


def test_function_comes_back_with_its_rule() -> None:
    expected = (
        "@jax.custom_gradient\n"
        "def scaled(x):\n"
        "    y = jnp.sin(x)\n"
        "    return y, lambda g: (g * 2 * y,)\n"
    )
    assert expected in recover(lambda x, w: scaled(x) @ w)


def test_function_that_is_only_differentiated() -> None:
    text = recover(lambda x, w: jax.grad(scaled)(x[0, 0]) + jax.vmap(scaled)(x))
    assert text.count("@jax.custom_gradient\ndef scaled(x):") == 1
    assert "jax.grad(scaled)" in text
    assert "jax.vmap(scaled)" in text


def test_rule_with_statements_is_a_nested_function() -> None:
    text = recover(
        lambda x, w: jax.grad(lambda x, w: layer(x, w).sum(), argnums=(0, 1))(x, w)
    )
    assert "        return g @ w.T, x.T @ g\n\n    return h, rule\n" in text


def test_rule_that_pulls_back() -> None:
    text = recover(lambda x, w: jax.grad(lambda p: pulled(p)["y"].sum())({"x": x}))
    assert 'return {"y": y}, lambda g: ({"x": pull(g["y"])[0]},)' in text


def test_function_that_needs_values_from_around_it() -> None:
    def f(x: Any, w: Any) -> Any:
        @jax.custom_gradient
        def product(x: Any) -> Any:
            return x @ w, lambda g: (g @ w.T * 2,)

        return jax.grad(lambda x: product(x).sum())(x)

    assert "return x @ w, lambda g: (g @ w.T * 2,)\n" in recover(f)
