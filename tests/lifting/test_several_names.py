"""One array that several variables hold is read from the one that the program reads."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

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


class State(NamedTuple):
    h: Any
    c: Any


def cell(w: Any, state: State, x: Any) -> State:
    z = jnp.concatenate([state.c, x]) @ w
    c = state.h * jax.nn.sigmoid(z) + jnp.tanh(z)
    return State(jnp.tanh(c), c)


def of_fields(x: Any) -> Any:
    zeros = jnp.zeros(3)
    state = State(zeros, zeros)
    for row in x:
        state = cell(jnp.concatenate([x, x]), state, row)
    return state.h


def unpacking(w: Any, state: Any, x: Any) -> Any:
    c, h = state
    z = jnp.concatenate([h, x]) @ w
    c = jax.nn.sigmoid(z) * c + jnp.tanh(z)
    return c, jnp.tanh(c)


def of_tuples(x: Any) -> Any:
    zeros = jnp.zeros(3)
    state = (zeros, zeros)
    for row in x:
        state = unpacking(jnp.concatenate([x, x]), state, row)
    return state[1]


def adam(params: Any, grads: Any, state: Any) -> Any:
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["m"], grads)
    v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, state["v"], grads)
    params = jax.tree.map(lambda p, m, v: p - m / (jnp.sqrt(v) + 1e-8), params, m, v)
    return params, {"m": m, "v": v}


def of_trees(x: Any) -> Any:
    params = {"a": x, "b": x[0]}
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = {"m": zeros, "v": zeros}
    for _ in range(3):
        params, state = adam(params, params, state)
    return params


def of_items(x: Any) -> Any:
    state = {"a": x, "b": x}
    for _ in range(3):
        state = changed(state)
    return state


def changed(state: Any) -> Any:
    y = state["b"] @ state["a"].T
    return {"a": jnp.sin(y), "b": y}


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Moments:
    mean: Any
    square: Any


def moved(held: Moments) -> Moments:
    return Moments(held.square * 2.0, held.mean + held.square)


def of_dataclasses(x: Any) -> Any:
    held = Moments(x, x)
    for _ in range(4):
        held = moved(held)
    return held


CASES = {
    of_dataclasses: [
        "mean=held.square * 2.0, square=held.mean + held.square",
        "    for _ in range(4):",
    ],
    of_fields: [
        "z = jnp.concatenate([state.c, x]) @ w",
        "c = state.h * jax.nn.sigmoid(z) + jnp.tanh(z)",
        "    for row in x:",
    ],
    of_tuples: [
        "c, h = state",
        "z = jnp.concatenate([h, x]) @ w",
        "c = jax.nn.sigmoid(z) * c + jnp.tanh(z)",
        "    for row in x:",
    ],
    of_trees: [
        'lambda m, g: 0.9 * m + 0.1 * g, state["m"], grads)',
        'lambda v, g: 0.99 * v + 0.01 * g * g, state["v"], grads)',
        "    for _ in range(3):",
        "params, state = adam(params, params, state)",
    ],
    of_items: ['y = state["b"] @ state["a"].T', "    for _ in range(3):"],
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
    assert "_2(" not in text
