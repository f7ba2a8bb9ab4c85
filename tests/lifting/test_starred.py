"""`key, *keys = jax.random.split(key, 4)`: what is left is a list, as in the program."""

import jax
import jax.numpy as jnp
import pytest

import untrace
from untrace.recovery.record import Rest, regrouped

KEY = jax.random.PRNGKey(0)
X = jnp.arange(1.0, 4.0)


def recover(function, *args):
    source = untrace.source(function)(*args)
    assert source.report.strength == "identical", source.report
    return str(source).partition('"""\n\n')[2].partition("def example_args")[0]


def test_keys_that_a_loop_takes():
    def f(key, x):
        key, *subkeys = jax.random.split(key, 4)
        for subkey in subkeys:
            x = x + jax.random.normal(subkey, x.shape)
        return x, key

    text = recover(f, KEY, X)
    assert "key, *subkeys = jax.random.split(key, 4)\n" in text
    assert "for subkey in subkeys:" in text


def test_keys_that_are_taken_at_once():
    def f(key):
        key, *subkeys = jax.random.split(key, 10)
        return key, jax.vmap(jax.random.normal)(jnp.array(subkeys))

    text = recover(f, KEY)
    assert "key, *subkeys = jax.random.split(key, 10)\n" in text
    assert "jnp.array(subkeys)" in text


def test_keys_that_are_taken_one_by_one():
    def f(key):
        key, *subkeys = jax.random.split(key, 3)
        return jax.random.normal(subkeys[0]) + jax.random.uniform(subkeys[1])

    assert "jax.random.normal(subkeys[0])" in recover(f, KEY)


@pytest.mark.parametrize("length", [2, 3, 5])
def test_stars_stand_anywhere(length):
    def f(x):
        first, *middle, last = x
        *before, end = jnp.sin(x)
        return first + last, jnp.stack([*middle, end]), before

    text = recover(f, jnp.arange(float(length)))
    assert "first, *middle, last = x\n" in text or length == 2
    assert "*before, end = jnp.sin(x)\n" in text or length == 2


def test_lists_are_unpacked_so():
    def f(layers, x):
        first, *rest = layers
        x = jnp.tanh(x @ first)
        for w in rest:
            x = jnp.tanh(x + x @ w)
        return x

    w = jnp.eye(3)
    text = recover(f, [w, w, w, w], X)
    assert "first, *rest = layers\n" in text and "for w in rest:" in text


def test_results_of_functions_are_unpacked_so():
    def parts(x):
        return jnp.sin(x), jnp.cos(x), jnp.tan(x)

    def f(x):
        sine, *others = parts(x)
        return sine * jnp.stack(others).sum()

    text = recover(f, X)
    assert "sine, *others = parts(x)\n" in text and "jnp.stack(others)" in text


def test_sizes_are_taken_so():
    def scaled(x):
        n, *_, features = x.shape
        return x.reshape(n, -1, features) @ jnp.eye(features) + jnp.zeros((n, 1, 1))

    def f(x):
        return scaled(x), scaled(x[:2])

    text = recover(f, jnp.ones((5, 2, 2, 3)))
    assert "n, *_, features = x.shape\n" in text or "features = x.shape[-1]" in text
    assert "jnp.eye(features)" in text and text.count("def scaled") == 1


def test_what_each_name_takes():
    assert regrouped([1, 2, 3], ("a", "b", "c")) == [1, 2, 3]
    assert regrouped((1, 2, 3), ("a", Rest("b"))) == [1, [2, 3]]
    assert regrouped([1, 2, 3], (Rest("a"), "b", "c")) == [[1], 2, 3]
    assert regrouped([1, 2], ("a", Rest("b"), "c")) == [1, [], 2]
    assert regrouped([1], ("a", Rest("b"), "c")) == [1]


def test_what_is_left_and_not_used_has_no_name():
    def first(value):
        x, *_ = value
        return jnp.sin(x) * 2 + jnp.cos(x)

    def f(x, y, z):
        return jax.lax.cond(x[0] > 0, first, lambda value: value[1], (x, y, z))

    text = recover(f, X, X, X)
    assert "x, *_ = value" in text
