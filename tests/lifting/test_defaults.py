"""Level "api": floats that functions have as defaults stay such."""

import functools
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


def norm(x, scale=2.0, eps=1e-5):
    return x * scale / jnp.sqrt(jnp.sum(x * x) + eps)


def loss(x, *, weight=0.25, mask=None):
    total = jnp.sum(norm(x) * weight)
    return total if mask is None else total * mask


def test_defaults_are_not_passed():
    text = recover(lambda x: norm(norm(x)), X)
    assert "def norm(x, scale=2.0, eps=1e-05):" in text
    assert "norm(norm(x))" in text


def test_other_numbers_are_passed():
    text = recover(lambda x: norm(x) + norm(x, 3.0) + norm(x, eps=1e-3), X)
    assert "norm(x) + norm(x, 3.0)" in text
    assert "norm(x, eps=0.001)" in text


def test_what_is_spelled_with_its_keyword_stays():
    assert "norm(x, eps=1e-05)" in recover(lambda x: norm(x, eps=1e-5), X)


def test_functions_that_are_passed_share_the_definition():
    text = recover(lambda x: jax.grad(loss)(x) + loss(x), X)
    assert text.count("def loss(") == 1


def test_a_default_before_other_parameters_is_passed():
    text = recover(lambda x: jax.jit(loss)(x, mask=jnp.cos(x)), X)
    assert "0.25" in text


def test_a_method_has_defaults():
    text = recover(lambda x: Scale().scaled(x), X)
    assert "def scaled(x, rate=0.75):" in text


class Scale:
    def scaled(self, x, rate=0.75):
        return jnp.sin(x) * rate


def shifted(x, rate=0.75):
    return jnp.sin(x) * rate + 0.75


def outer(x, bound=1e-4):
    return shifted(jnp.where(x > bound, x, 0.0)) + inner(x)


def inner(x):
    return jnp.where(x > 1e-4, x, 1.0)


def test_numbers_that_are_alike_are_not_one():
    text = recover(lambda x: outer(x), X)
    assert "jnp.sin(x) * rate + 0.75" in text
    assert "def inner(x):" in text and "x > 0.0001" in text


def test_a_checkpointed_function_keeps_its_default():
    @functools.partial(jax.checkpoint)
    def layer(x):
        return norm(x)

    assert "return norm(x)" in recover(lambda x: layer(x), X)


def test_defaults_of_keywords_that_hold_arrays_are_seen_as_closed_over():
    def mapped(f, xs, ys):
        def outer(*args, constants=(ys, [2.0])):
            return f(*args) + constants[0].sum() * constants[1][0]

        return jax.vmap(outer)(*xs)

    def program(x, y):
        return mapped(lambda a, b: a * b, (x, x + 1), y)

    src = untrace.source(program)(np.ones(3, np.float32), np.ones(2, np.float32))
    assert src.report.strength == "identical"
    assert "from its equations" not in str(src)
    assert "def outer(*args):" in str(src)
