"""Numbers that a program takes from its constant arrays are written as items of these."""

import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.lifting.test_containers import recover

STEPS = np.array([[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1]])
OPPOSITE = np.array([0, 3, 4, 1, 2])
SCALES = np.array([0.5, 1.5, 2.5])
TWICE = np.array([1, 1, 2])
X = np.linspace(0.1, 1.0, 60, dtype=np.float32).reshape(3, 4, 5)


def streamed(f):
    for i, (dx, dy) in enumerate(STEPS):
        f = f.at[:, :, i].set(jnp.roll(jnp.roll(f[:, :, i], dx, axis=0), dy, axis=1))
    return f


def bounced(f):
    g = f * 2
    for i in range(5):
        g = g.at[..., i].add(f[..., OPPOSITE[i]])
    return g


def scaled(f):
    for s in SCALES:
        f = jnp.sin(f) * s + f
    return f


def one_item(f):
    return f * SCALES[1] + f[STEPS[1, 0]]


@pytest.mark.parametrize(
    ("function", "lines"),
    [
        (streamed, ["for i in range(5):", "STEPS[i, 0], axis=0)", "STEPS[i, 1]"]),
        (bounced, ["for i in range(5):", "f[..., OPPOSITE[i]]"]),
        (scaled, ["for i in range(3):", "jnp.sin(f) * SCALES[i] + f"]),
        (one_item, ["return f * SCALES[1] + f[STEPS[1, 0]]"]),
    ],
)
def test_items_of_arrays_of_the_module(function, lines):
    text = recover(function, X)
    assert all(line in text for line in lines), text


def test_a_row_that_is_there_twice_is_none_of_a_loop():
    def f(x):
        for n in TWICE:
            x = jnp.roll(x, n)
        return x

    recover(f, X)


def test_items_of_other_arrays_stay_numbers():
    def f(x):
        local = np.array([2, 1])
        return jnp.roll(x, local[0]) + jnp.roll(x, local[1])

    assert "local[" not in recover(f, X)


def test_anonymous_files_have_no_arrays_of_the_module():
    text = str(untrace.source(bounced, anonymous=True)(X))
    assert "OPPOSITE" not in text
