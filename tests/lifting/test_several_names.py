"""One array that several variables hold is read from the one that the program reads."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

X = np.linspace(0.1, 1.0, 9, dtype=np.float32).reshape(3, 3)


def masked(n: int, m: int, queries: Any, keys: Any) -> Any:
    mask = queries[:, None] == keys[None, :]
    return jnp.logical_and(mask, jnp.ones((n, m)) > 0)


def attention(q: Any, k: Any, queries: Any, keys: Any) -> Any:
    mask = masked(q.shape[0], k.shape[0], queries, keys)
    return jnp.where(mask, q @ k.T, -1e9)


def passed_on(x: Any) -> Any:
    return attention(x, jnp.sin(x), x[0], x[0])


def passed_twice(x: Any) -> Any:
    ids = x[0]
    return attention(x, jnp.sin(x), ids, ids)


def of_functions(x: Any) -> Any:
    def combined(f: Any, x: Any) -> Any:
        return f(x, x)

    return combined(lambda a, b: jnp.sin(a) * a + b, x)


def forwarded(x: Any) -> Any:
    c, s = jnp.cos(x), jnp.sin(x)

    def yes(_: Any) -> Any:
        return c, jnp.zeros((3, 3)), s

    def no(_: Any) -> Any:
        return c, (c - 1) / x, s

    c, e, s = jax.lax.cond(x[0, 0] < 0.5, yes, no, None)
    return c * e + s


CASES = {
    passed_twice: [
        "def attention(q, k, queries, keys):",
        "masked(q.shape[0], k.shape[0], queries, keys)",
        "attention(x, jnp.sin(x), ids, ids)",
    ],
    passed_on: ["queries[:, None] == keys[None, :]"],
    of_functions: ["lambda a, b: jnp.sin(a) * a + b"],
    forwarded: ["_, e, _ = jax.lax.cond(", "return c * e + s"],
}


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_the_variable_that_is_read_is_written(function: Any) -> None:
    src = untrace.source(function)(X)
    assert src.report.strength == "identical", src.report
    text = src.module.body
    assert all(line in text for line in CASES[function]), text
