"""Calls that one call makes one after the other, such as `map`, are loops."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.example_libraries import optimizers

import untrace

X = np.linspace(0.1, 1.0, 3, dtype=np.float32)
LAYERS = [(X, X + 1), (), (X + 2, X + 3)]


def update(rate: float, p: Any, g: Any, m: Any) -> Any:
    m = 0.9 * m + g
    return p - rate * m, m


def mapped(params: Any, grads: Any, states: Any) -> Any:
    pairs = map(partial(update, 0.1), params, grads, states)
    return [jnp.sum(p) + jnp.sin(m) for p, m in pairs]


def mapped_to_an_array(params: Any, grads: Any, states: Any) -> Any:
    return jnp.stack(list(map(jnp.linalg.norm, params))), grads, states


def mapped_lambda(params: Any, grads: Any, states: Any) -> Any:
    n = grads[0].shape[0]
    parts = jnp.split(jnp.concatenate(params), 2)
    q, k = map(lambda t: jnp.tanh(t.reshape(n, -1)), parts)
    u, v, w = map(lambda t: jnp.sin(t * 2.0) + n, states[:3])
    return q @ k.T, u * v - w


CASES = {
    mapped: ["zip(params, grads, states)", "update(0.1, "],
    mapped_lambda: ["u, v, w = (jnp.sin(t * 2.0) + "],
    mapped_to_an_array: ["jnp.stack([jnp.linalg.norm("],
}


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_what_map_calls_is_a_loop(function: Any) -> None:
    arrays = [X, X + 1, X + 2, X + 3]
    src = untrace.source(function)(arrays, arrays, arrays)
    assert src.report.strength == "identical", src.report
    assert all(part in src.text for part in CASES[function]), src.text
    assert "params[1]" not in src.text, src.text


@pytest.mark.parametrize("params", [LAYERS, LAYERS[::2]])
def test_a_step_of_an_optimizer_of_jax_is_read_like_a_library(params: Any) -> None:
    """It is `map(update, grads, states)`; leaves may be beside empty tuples."""
    init, change, params_of = optimizers.adam(1e-3)

    def loss(params: Any, x: Any) -> Any:
        return sum(jnp.sum(jnp.tanh(x * leaf)) for leaf in jax.tree.leaves(params))

    def step(i: Any, state: Any, x: Any) -> Any:
        return change(i, jax.grad(loss)(params_of(state), x), state)

    src = untrace.source(step)(0, init(params), X)
    assert src.report.strength == "identical", src.report
    lines = [
        "x, m, v = state",
        "mhat = m / (1 - jnp.asarray(0.9, jnp.float32) ** (i + 1))",
        "in zip(jax.tree.leaves(grad_tree), opt_state.packed_state):",
    ]
    assert all(line in src.text for line in lines), src.text


class Packed(NamedTuple):
    arrays: Any
    size: int


jax.tree_util.register_pytree_node(
    Packed,
    lambda one: ((one.arrays,), one.size),
    lambda size, held: Packed(*held, size),
)


def test_fields_of_what_is_flattened_to_less_have_their_names() -> None:
    src = untrace.source(lambda packed: jnp.sin(packed.arrays))(Packed(X, 3))
    assert "jnp.sin(packed.arrays)" in src.text, src.text
