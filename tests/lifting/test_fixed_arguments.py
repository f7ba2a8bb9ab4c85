"""Arguments that are fixed are left out, and options count those that are left."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

X = jnp.arange(3.0)


def recover(function, *args, **kwargs):
    source = untrace.source(function)(*args, **kwargs)
    assert source.report.is_verified, source.report
    assert not any("equations" in note for note in source.report.notes)
    return str(source).partition('"""\n\n')[2].partition("def example_args")[0]


def price(spot, time, rate, sigma=0.3):
    return spot * jnp.exp(-rate * time) * sigma


@functools.partial(jax.jit, static_argnums=0, donate_argnums=(1,))
def scaled(n, x, y, *, rate):
    return x * n + y * rate


@functools.partial(jax.jit, static_argnums=(0, 2), donate_argnums=1)
def mapped(n, x, function):
    return function(x * n)


def test_numbers_are_passed_by_keyword_to_jitted_functions():
    text = recover(lambda x, y: scaled(3, x, y, rate=0.5), X, X)
    assert "def scaled(x, y, *, rate):" in text
    assert "scaled(x, y, rate=0.5)" in text


def test_donations_count_the_arguments_that_are_left():
    text = recover(lambda x, y: scaled(3, x, y, rate=0.5), X, X)
    assert "donate_argnums=(0,)" in text


def test_donations_of_the_program_itself_do_too():
    text = recover(scaled, 3, X, X, rate=0.5)
    assert "donate_argnums=(0,)" in text and "def scaled(x, y, *, rate):" in text
    assert "scaled_jit" not in text


def test_donations_beside_functions_that_are_passed_do_too():
    text = recover(lambda x: mapped(3, x, jnp.sin), X)
    assert "donate_argnums=(0,), static_argnums=1" in text


def test_derivatives_count_the_arguments_that_are_left():
    def greeks(spot):
        rho = jax.grad(price, argnums=(0, 2))(spot, 2, 0.02)
        return rho, jax.grad(jax.grad(price, argnums=2))(spot, 2, 0.02)

    text = recover(greeks, 2.0)
    assert "jax.grad(price, argnums=(0, 1))(spot, 0.02)" in text
    assert "jax.grad(jax.grad(price, argnums=1))(spot, 0.02)" in text


def test_starred_arguments_that_are_no_arrays_are_fixed():
    def f(x, y):
        first = jax.grad(lambda x, *rest, rate: jnp.sum(x) * rate)(x, 2.0, rate=y[0])
        return first, jax.jacrev(lambda x, *rest: x**2)(x, 2.0, y)

    text = recover(f, X, X)
    assert "jnp.sum(x) * rate)(x, rate=y[0])" in text
    assert "(lambda x, *rest: x**2)(x, 2.0, y)" in text


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2, 4))
def log_sum(x, axis=None, keepdims=False, b=None, return_sign=False):
    return jax.nn.logsumexp(x, axis, b, keepdims, return_sign)


@log_sum.defjvp
def log_sum_jvp(axis, keepdims, return_sign, primals, tangents):
    x, b = primals
    t, _ = tangents
    out = log_sum(x, axis, keepdims, b, return_sign)
    return out, jnp.sum(jnp.exp(x - jnp.expand_dims(out, axis)) * t, axis=axis)


@pytest.mark.parametrize("is_grad", [False, True])
def test_fixed_arguments_by_keyword_and_defaults(is_grad):
    """They were passed to a function that had none of them, as were defaults."""

    def f(x):
        rows = log_sum(x, axis=1, return_sign=False)
        return jnp.sum(rows) + jnp.sum(log_sum(x, b=None, axis=0)) + log_sum(x, 0)[0]

    x = np.linspace(0.0, 1.0, 6, dtype=np.float32).reshape(3, 2)
    src = untrace.source(jax.grad(f) if is_grad else f)(x)
    assert src.report.strength == "identical", str(src.report)
    assert "from its equations" not in str(src)
    assert "def log_sum(x, b):" in str(src) and "log_sum(x, None)" in str(src)
