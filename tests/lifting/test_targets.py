"""Values have the names of the assignment that they are a part of."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.lifting.installed import library

X = np.linspace(0.1, 1.0, 16, dtype=np.float32).reshape(4, 4)
PARAMS = {"a": X, "b": X + 1, "c": X + 2}


def recover(function, *args):
    src = untrace.source(function)(*args)
    assert src.report.strength == "identical", str(src.report)
    return str(src)


def turned(x):
    return jnp.sin(x) * jnp.cos(x) + x


def from_a_generator(params, x):
    q, k, v = (jnp.dot(x, params[name]) for name in "abc")
    q, k = turned(q), turned(k)
    return q @ k + v * q * k


def from_a_list(params, x):
    q, k, v = [jnp.dot(x, params[name]) for name in "abc"]
    q, k = turned(q), turned(k)
    return q @ k + v * q * k


@pytest.mark.parametrize("function", [from_a_generator, from_a_list])
def test_elements_of_a_comprehension_that_is_unpacked(function):
    text = recover(function, PARAMS, X)
    assert "q, k, v = (jnp.dot(x, params[name]) for name in sorted(params))" in text
    assert "q = turned(q)" in text and "k = turned(k)" in text


def test_elements_of_a_comprehension_in_a_loop():
    def f(x):
        for scale in (1.0, 2.0, 3.0):
            left, right = (turned(x * scale) for x in (x, x + scale))
            x = left * right + jnp.sum(left) - jnp.sum(right)
        return x

    text = recover(f, X)
    assert "left, right = (turned(" in text, text
    assert "turned_out" not in text


def test_values_that_are_assigned_at_once():
    def f(x):
        a, (b, c), d = turned(x), jnp.frexp(x), (x * 2).sum()
        a, b = a * b + jnp.sum(c), b - a
        return a * a + b * b * d

    text = recover(f, X)
    assert "a = turned(x)" in text and "b, c = jnp.frexp(x)" in text
    assert "d = (x * 2).sum()" in text


def test_functions_in_a_scope_give_the_callers_names():
    @jax.named_scope("norm")
    def norm(x, state):
        mean = jnp.mean(x)
        return (x - mean) * jnp.exp(-state), 0.9 * state + 0.1 * mean

    def model(x, state):
        y, moments = norm(x, state)
        return jnp.tanh(y), moments

    text = recover(model, X, np.float32(1.0))
    assert "    y, moments = norm(x, state)\n" in text


def test_parts_of_a_result_have_the_callers_names():
    transforms = library("""
def value_and_grad(function):
    def call(*args):
        value, grads = jax.value_and_grad(function, has_aux=True)(*args)
        return value, grads
    return call
""")

    def model(w, x):
        (loss, aux), grads = transforms.value_and_grad(
            lambda w: (jnp.sum(w * x), jnp.max(w))
        )(w)
        return w - loss * grads, aux

    text = recover(model, X, X)
    assert "(loss, aux), grads = jax.value_and_grad(" in text


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Cloud:
    mass: jax.Array
    centre: jax.Array


def test_what_has_no_name_is_called_after_the_field_that_holds_it():
    def grown(cloud):
        return Cloud(cloud.mass * cloud.mass + 1, cloud.centre * cloud.mass)

    def f(x):
        cloud = Cloud(jnp.sum(x), jnp.sin(x))
        for _ in range(3):
            cloud = grown(cloud)
        first = Cloud(jnp.prod(x), jnp.cos(x))
        x = first.centre * first.centre + first.mass * first.mass
        return cloud.centre * x

    text = recover(f, X)
    assert "    mass = jnp.prod(x)\n    centre = jnp.cos(x)\n" in text


def test_a_field_says_more_than_a_letter_of_a_library():
    layers = library("""
def chosen(a, b):
    return jnp.where(a > 0, a * b, b + a)

class Sizes(NamedTuple):
    length: jax.Array
    width: jax.Array

def area(x):
    sizes = Sizes(jnp.sum(x), jnp.prod(x))
    return chosen(sizes.length, sizes.width) * sizes.length / sizes.width
""")
    text = recover(lambda x: layers.area(x) + 1, X)
    assert "length = jnp.sum(x)" in text and "width = jnp.prod(x)" in text
