"""Functions that are mapped over a tree, and close over some of its leaves."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.lifting.test_containers import recover

X = np.linspace(0.5, 1.5, 3, dtype=np.float32)


class Contact(NamedTuple):
    normal: jax.Array
    depth: jax.Array
    active: jax.Array


def selected(a, b):
    active = (a > 0) & (b > 0)
    contact = Contact(a * 2, jnp.sin(b), active)
    return jax.tree.map(lambda x: jax.lax.select(active, x, jnp.zeros_like(x)), contact)


def scaled(a, b):
    scale = jnp.sum(a)
    tree = {"a": a * scale, "b": [b, b + 1], "scale": scale}
    return jax.tree.map(lambda t: t / scale - jnp.cos(t), tree)


def first_is_closed_over(a, b):
    tree = [a, b, a + b]
    return jax.tree.map(lambda t: jnp.where(a > 0, t, b), tree)


def trees_with_leaves_in_common(a, b):
    old, keep = Contact(a, b, a + b), a > b - 1
    new = Contact(a * 2, b, jnp.sin(a))
    return jax.tree.map(lambda x, y: jnp.where(keep, x, y), (new, old), (old, old))


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (trees_with_leaves_in_common, "lambda x, y: jnp.where(keep, x, y)"),
        (selected, "lambda x: jax.lax.select(active, x, jnp.zeros_like(x)), contact"),
        (scaled, "lambda t: t / scale - jnp.cos(t), tree"),
        (first_is_closed_over, "lambda t: jnp.where(a > 0, t, b)"),
    ],
)
def test_leaves_that_a_function_closes_over_are_leaves_like_the_others(function, line):
    text = recover(function, X, X + 1)
    assert line in text and text.count("jax.tree.map(") == 1, text


def test_what_does_something_else_for_them_is_written_leaf_by_leaf():
    def f(a, b):
        tree = {"a": a, "b": b, "c": a + b}
        return jax.tree.map(lambda t: t / a if t is not a else jnp.sin(t) / t, tree)

    text = recover(f, X, X + 1)
    assert "jnp.sin(a) / a" in text and "b / a" in text, text


def test_of_one_leaf_nobody_can_tell():
    def f(a):
        return jax.tree.map(lambda t: t / a, {"a": a}), jnp.sin(a)

    recover(f, X + 2)


class State(NamedTuple):
    position: jax.Array
    speed: jax.Array
    time: int


def start(a):
    return State(a, 2 * a, 0)


def reset(done, a, state):
    return jax.tree.map(lambda x, y: jax.lax.select(done, x, y), start(a), state)


def of_a_number_that_stands_there(done, a, state):
    return jax.tree.map(lambda x, y: jnp.where(done, x, y) + 0, start(a), state)


@pytest.mark.parametrize(
    ("function", "written"),
    [
        (
            reset,
            "jax.tree.map(lambda x, y: jax.lax.select(done, x, y), start(a), state)",
        ),
        (of_a_number_that_stands_there, "lambda x, y: jnp.where(done, x, y) + 0"),
    ],
)
def test_numbers_among_the_leaves(function, written):
    text = recover(function, True, X, State(X, X, 3))
    assert written in " ".join(text.split()), text


def test_what_a_function_does_to_a_number_alone_is_written():
    def of_kind(done, a, state):
        def choose(x, y):
            return y if isinstance(x, int) else jnp.where(done, x, y)

        return jax.tree.map(choose, start(a), state)

    text = recover(of_kind, True, X, State(X, X, 3))
    assert "tree.map" not in text
