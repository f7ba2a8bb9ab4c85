"""Trees of parts of what a mapped function returned are mapped, not listed."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

X = np.linspace(0.1, 1.0, 3, dtype=np.float32)
PARAMS = [{"w": X, "b": X + 1} for _ in range(3)]


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layers:
    first: Any
    second: Any


def adam(p: Any, g: Any, m: Any, v: Any) -> Any:
    m = 0.9 * m + 0.1 * g
    v = 0.99 * v + 0.01 * g**2
    return p - m / jnp.sqrt(v), m, v


def parts(params: Any, grads: Any, m: Any, v: Any) -> Any:
    out = jax.tree.map(adam, params, grads, m, v)
    params = jax.tree.map(lambda _, one: one[0], params, out)
    m, v = (
        jax.tree.map(lambda one, i=i: one[i], out, is_leaf=lambda x: type(x) is tuple)
        for i in (1, 2)
    )
    return params, m, v


def parts_that_are_trees(params: Any, grads: Any, m: Any, v: Any) -> Any:
    """What is handed through is a part of the argument, too."""

    def update(p: Any, g: Any, state: Any) -> Any:
        return p - 0.1 * g, (state[0] + g, state[1])

    states = jax.tree.map(lambda a, b: (a, b), m, v)
    out = jax.tree.map(update, params, grads, states)
    new = jax.tree.map(lambda _, one: one[0], params, out)
    return new, jax.tree.map(lambda _, one: one[1], params, out)


def other_parts(params: Any, grads: Any, m: Any, v: Any) -> Any:
    """The leaves of one tree are not all the same parts."""
    out = jax.tree.map(adam, params, grads, m, v)
    return [{"w": one["w"][0], "b": one["b"][1]} for one in out]


MAPS = {
    parts: [f"jax.tree.map(lambda _, item: item[{i}], params, out)" for i in range(3)],
    parts_that_are_trees: [
        f"jax.tree.map(lambda _, item: item[{i}], params, out)" for i in range(2)
    ],
    other_parts: [],
}


@pytest.mark.parametrize("params", [PARAMS, Layers(PARAMS[0], PARAMS[1])])
@pytest.mark.parametrize("function", MAPS, ids=lambda f: f.__name__)
def test_parts_are_mapped(function: Any, params: Any) -> None:
    if function is other_parts and isinstance(params, Layers):
        return
    src = untrace.source(function)(params, params, params, params)
    assert src.report.strength == "identical", src.report
    assert all(line in src.text for line in MAPS[function]), src.text
    assert bool(MAPS[function]) == ("item[" in src.text), src.text
