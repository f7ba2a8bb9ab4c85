"""Arguments that are bound to what a transformation made of a function."""

from functools import partial

import jax
import jax.numpy as jnp

import untrace

X = jnp.arange(3.0)


def recover(function, *args):
    source = untrace.source(function)(*args)
    assert source.report.is_verified, source.report
    assert not any("equations" in note for note in source.report.notes)
    return str(source).partition('"""\n\n')[2].partition("def example_args")[0]


def loss(w, x):
    return jnp.sum(jnp.tanh(w * x))


def test_transformed_functions_with_bound_arguments_keep_their_transformation():
    text = recover(lambda w, xs: jax.vmap(partial(jax.grad(loss), w))(xs), X[1], X)
    assert "jax.vmap(functools.partial(jax.grad(loss), w))(xs)" in text


def test_partials_that_bind_nothing_are_what_they_wrap():
    def shaded(w, xs):
        return jax.vmap(partial(jax.grad(lambda x: loss(w, x))))(xs)

    text = recover(shaded, X[1], X)
    assert "partial" not in text and "jax.vmap(jax.grad(lambda x: loss(w, x)))" in text


def test_bound_arguments_that_are_fixed_are_left_out():
    def scaled(scale, w, x):
        return loss(w, x) * scale

    def program(w, xs):
        gradient = partial(jax.grad(scaled, argnums=1), 2.0)
        return jax.vmap(partial(gradient, w))(xs)

    text = recover(program, X[1], X)
    assert "jax.vmap(functools.partial(jax.grad(scaled), w))(xs)" in text


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def floored(low, x):
    return jnp.maximum(low, x)


floored.defvjp(lambda low, x: (floored(low, x), None), lambda low, _, g: (g * low,))


def test_functions_with_rules_keep_them():
    def program(xs):
        return jax.grad(lambda x: jax.vmap(partial(floored, 0.5))(x).sum())(xs)

    assert "defvjp" in recover(program, X)
