"""Functions of one code that one call is given: closures, partials, methods, defaults."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

X = np.linspace(0.1, 1.0, 9, dtype=np.float32).reshape(3, 3)


def recover(function, *args):
    src = untrace.source(function)(*args)
    assert src.report.is_verified, str(src.report)
    assert "from its equations" not in str(src), src.report.notes
    return str(src)


def scaled(factor):
    def scale(x):
        return jnp.sin(x) * factor

    return scale


def wrapped(function):
    @functools.wraps(function)
    def with_nothing(x):
        return function(x), None

    return with_nothing


class Scale:
    """A factor."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return x + self.factor

    def times(self, x):
        return x * self.factor


def times(factor, x):
    return jnp.cos(x) * factor


ONE, TWO = Scale(2.0), Scale(3.0)


@pytest.mark.parametrize(
    "first, second",
    [
        (scaled(2.0), scaled(3.0)),
        (functools.partial(times, 2.0), functools.partial(times, 3.0)),
        (ONE.times, TWO.times),
        (ONE, TWO),
        (lambda x, factor=2.0: x * factor, lambda x, factor=3.0: x * factor),
    ],
    ids=["closures", "partials", "methods", "objects", "defaults"],
)
def test_branches_that_differ_in_a_number(first, second):
    text = recover(lambda x: jax.lax.cond(x[0, 0] > 0, first, second, x), X)
    assert "2.0" in text and "3.0" in text


def test_branches_that_are_decorated_alike():
    def step(x):
        y, _ = jax.lax.cond(x[0, 0] > 0, wrapped(jnp.sin), wrapped(lambda y: y @ y), x)
        return y

    text = recover(step, X)
    assert "jnp.sin(" in text and " @ " in text


def test_branches_made_in_a_comprehension():
    def choose(i, x):
        branches = [lambda x, w=w: x @ w for w in (x, 2 * x, x.T)]
        return jax.lax.switch(i, branches, x)

    recover(choose, 1, X)
    recover(jax.vmap(choose, in_axes=(0, None)), np.arange(3), X)


def test_branches_that_close_over_arrays():
    def made(w):
        return lambda x: jnp.tanh(x @ w)

    def step(w, x):
        return jax.lax.cond(x[0, 0] > 0, made(w[0]), made(w[1]), x)

    recover(step, np.stack([X, X.T]), X)
    recover(jax.grad(lambda w, x: jnp.sum(step(w, x))), np.stack([X, X.T]), X)
