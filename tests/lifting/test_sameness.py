"""Level "api": what the author wrote once is one function."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import untrace

X = np.linspace(0.1, 1.0, 4, dtype=np.float32)


def recover(function: Any, *args: Any) -> str:
    src = untrace.source(function)(*args)
    assert "from its equations" not in str(src), src.report.notes
    assert src.report.strength == "identical", str(src.report)
    return str(src)


def distance(x, y, scale=2.0):
    difference = x[:, None] - y
    return jnp.sqrt(jnp.sum(y) + difference**2) / scale


def test_an_array_that_is_two_arguments_has_the_name_that_was_written():
    text = recover(lambda x, y: distance(x, x) + distance(x, y) + distance(y, y), X, X)
    assert text.count("def distance") == 1
    assert "distance(x, x) + distance(x, y) + distance(y, y)" in text


def summed(x, weight):
    def step(total, row):
        return total + jnp.sin(row) * weight, None

    return jax.lax.scan(step, x[0], x)[0]


def test_inner_functions_may_run_at_several_types():
    text = recover(lambda x, y: summed(x, 2 * x[0]) + summed(y, x[1]), X, X[:, None])
    assert text.count("def step") == text.count("def summed") == 1


class Model:
    def __call__(self, params, x):
        return jnp.tanh(x @ params["w"]) + params["b"]


def test_a_parameter_may_be_called_otherwise():
    weights = {"w": np.eye(4, dtype=np.float32), "b": X}

    def f(params, target_params, x):
        model = Model()

        def online(x):
            return model(params, x)

        def target(x):
            return model(target_params, x)

        return online(x) - target(x)

    text = recover(f, weights, weights, X)
    assert text.count("jnp.tanh") == 1


def conv(x, w, dilation):
    y = jax.lax.conv_general_dilated(
        x[None, None], w, (1,), [(dilation, 0)], rhs_dilation=(dilation,)
    )
    return jnp.tanh(y[0, 0]) + jnp.cos(x)


def test_a_convolution_is_spelled_as_its_author_did():
    w = np.ones((1, 1, 2), np.float32)
    text = recover(lambda x, w: conv(conv(x, w, 1), w, 2), X, w)
    assert text.count("def conv") == 1
    assert "conv(conv(x, w, 1), w, 2)" in text


def softest(x, axis):
    return -jax.nn.logsumexp(-x, axis=axis) * jnp.exp(-jnp.sum(x) / jnp.max(x))


def test_a_parameter_that_is_passed_on_by_its_keyword():
    square = X[:, None] * X
    text = recover(lambda x: softest(x, 0) + softest(x, 1), square)
    assert "def softest(x, axis):" in text


def attend(q, k):
    scores = jnp.tanh(q @ k.T)
    return jax.nn.softmax(scores) @ k


def test_an_attribute_of_an_array_that_is_two_arguments_is_taken_of_what_was_written():
    text = recover(lambda x: attend(attend(x, x), x), X.reshape(2, 2))
    assert text.count("def attend") == 1 and "q @ k.T" in text
