"""Functions that a program calls, and passes to transformations as well, are one function."""

from functools import partial

import jax
import jax.numpy as jnp

import untrace
from tests.lifting.functions import function, head_of
from untrace.lifting.recorded.unify.copies import share_heads

X = jnp.arange(1.0, 4.0)


def recover(function, *args):
    source = untrace.source(function)(*args)
    assert source.report.strength == "identical", source.report
    return str(source).partition('"""\n\n')[2].partition("def example_args")[0]


def test_inner_functions_stay_where_they_are_defined():
    def train(w, x, y):
        def loss(w):
            prediction = jnp.tanh(x * w)
            return jnp.mean((prediction - y) ** 2)

        before = loss(w)
        w = w - 0.1 * jax.grad(loss)(w)
        return before, loss(w)

    text = recover(train, X, X, X)
    assert text.count("def loss(w):") == 1 and "loss_2" not in text
    assert "before = loss(w)\n" in text


def test_they_do_not_keep_loops_from_being_loops():
    def newton(x, n):
        target = jnp.sum(x)

        def residual(z):
            return z**3 - target + n

        z = x
        for _ in range(3):
            z = z - residual(z) @ jax.jacobian(residual)(z)
        return z, residual(z)

    text = recover(newton, X, X)
    assert "for _ in range(3):" in text and text.count("def residual(z):") == 1


def test_jitted_ones_keep_their_name():
    def f(x, y):
        scale = 0.7

        def norm(x):
            return x / jnp.sqrt(jnp.sum(x * x)) * scale

        return norm(x) + jax.jit(norm)(y)

    assert "return norm(x) + jax.jit(norm)(y)" in recover(f, X, X)


def test_those_that_are_only_called_are_functions_of_the_module():
    def f(x):
        def norm(x):
            total = jnp.sum(x * x)
            return x / total - total

        return norm(x) + norm(2 * x)

    assert "\ndef norm(x):" in recover(f, X)


def potential(q, k, m, shift=1.0, *, power=3.0):
    return 0.5 * k * jnp.sum((q - shift) ** power) / m


def test_floats_are_arguments_of_derivatives():
    def f(q):
        value, gradient = jax.value_and_grad(potential)(q, 2.0, 1.5)
        other = jax.grad(potential, argnums=1)(q, 2.0, m=1.5)
        curvature = jax.hessian(potential)(q, 4.0, 1.5)
        each = jax.vmap(jax.grad(potential), in_axes=(0, None, None))(q, 2.0, 1.5)
        return value, gradient, other, curvature, each

    def program(q):
        return f(q)

    text = recover(program, X)
    assert text.count("def potential") == 1
    assert "jax.value_and_grad(potential)(q, 2.0, 1.5)" in text
    assert "jax.grad(potential, argnums=1)(q, 2.0, m=1.5)" in text
    assert "jax.hessian(potential)(q, 4.0, 1.5)" in text
    assert "in_axes=(0, None, None))(" in text


def test_calls_that_leave_out_others_are_of_one_function():
    def f(q):
        plain = potential(q, 2.0, 1.5)
        first = jax.grad(potential)(q, 2.0, 1.5, power=2.0)
        second = jax.grad(potential)(q, 2.0, 1.5, 0.5)
        third = jax.vmap(partial(potential, m=1.5, shift=0.25), (0, None))(q, 3.0)
        return plain, first, second, third

    text = recover(f, X)
    assert text.count("def potential(q, k, m, shift=1.0, power=3.0):") == 1
    assert "potential_2" not in text
    assert "jax.grad(potential)(q, 2.0, 1.5, power=2.0)" in text


def heads(*parameters):
    line = "return x * by + shift"
    functions = [function(f"f_{i}", one, line) for i, one in enumerate(parameters)]
    share_heads(functions)
    return [*map(head_of, functions)]


def test_heads_have_the_defaults_of_all():
    assert (
        heads("x, by, shift=1.0", "x, by=2.0, shift=1.0")
        == ["x, by=2.0, shift=1.0"] * 2
    )
    assert heads("x, by, *, shift", "x, by, shift=1.0") == ["x, by, shift=1.0"] * 2
    assert (
        heads("x, *, by=2.0, shift", "x, *, by, shift") == ["x, *, by=2.0, shift"] * 2
    )


def test_heads_that_do_not_agree_stay():
    for different in (
        ("x, by=2.0, shift=1.0", "x, by=3.0, shift=1.0"),
        ("x, by=2.0, *, shift", "x, by, shift"),  # what has no default comes first
        ("x, by, shift", "x, shift, by=2.0"),
        ("x, by, shift", "x, by, *shift"),
    ):
        assert heads(*different) == [*different]
    functions = [
        function("f", "x, by", "return x"),
        function("f_2", "x, by=2.0", "return x - by"),
    ]
    share_heads(functions)
    assert head_of(functions[0]) == "x, by"
