"""A value keeps the second variable that the user gave it: `residual = x`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.recovery.second_variables import second_variables

X = np.linspace(0.1, 1.0, 9, dtype=np.float32).reshape(3, 3)


def norm(x):
    return x - x.mean()


def block(x, w):
    residual = x
    x = norm(x)
    x = jnp.tanh(x @ w)
    x = residual + x
    residual = x
    x = jnp.sin(norm(x))
    return residual + x


def skipping(x, w):
    start = x
    for _ in range(3):
        x = jnp.tanh(x @ w)
    return x + start


def several(x, w):
    kept = x
    x, y = jnp.sin(x), jnp.cos(w)
    other, x = x, x * y
    return kept + x * other


def of_library_names(x, w):
    x = jax.nn.silu(x)
    input = x
    x = jax.nn.standardize(x @ w)
    return x + input


def in_function(x, w):
    return block(x, w) * 2


CASES = {
    block: ["residual = x", "x = norm(x)", "residual = x"],
    in_function: ["residual = x", "x = norm(x)", "residual = x"],
    skipping: ["start = x", "for _ in range(3):"],
    several: ["kept = x"],
    of_library_names: ["input_ = x", "x = jax.nn.standardize"],
}


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_second_variables_come_back(function):
    source = untrace.source(function)(X, X)
    assert source.report.strength == "identical", source.report
    text = source.module.body
    at = -1
    for line in CASES[function]:
        at = text.find(line, at + 1)
        assert at >= 0, text
    assert "x_2" not in text


def test_what_is_not_read_again_has_no_second_variable():
    def function(x):
        before = x
        x = jnp.sin(x)
        return x, before.shape

    text = str(untrace.source(lambda x: function(x)[0])(X))
    assert "before" not in text


def test_what_a_function_inside_reads_stays():
    def function(x):
        before = x
        x = jnp.sin(x)
        return jax.lax.map(lambda row: row + before[0], x)

    source = untrace.source(function)(X)
    assert source.report.is_verified


def test_assignments_of_one_variable_to_another_are_read():
    def function(a, b):
        c = a
        d = (c, b)
        e = f = b
        a, b = b, a
        empty = ()
        g = a if c else b or empty
        c = c
        return c, d, e, f, g

    found = [(one.name, one.first) for one in second_variables(function.__code__)]
    assert ("c", "a") in found
    assert "d" not in dict(found)
    assert "g" not in dict(found)


def test_what_lambdas_have_read_gives_its_name_on():
    def f(p, x):
        x = jnp.sin(x) * 2
        x = jax.lax.cond(p, lambda _: x * jnp.cos(x), lambda _: x, operand=None)
        x, ys = jax.lax.scan(lambda c, y: (c + y * x, c.sum()), x, x)
        x = jax.vmap(lambda a: jnp.sum(a * x))(x) / 2
        return x, ys

    src = untrace.source(f)(True, np.ones(3, np.float32))
    assert src.report.strength == "identical"
    assert "x = jax.lax.cond(p, lambda _: x * jnp.cos(x), lambda _: x" in str(src)
    assert "_2" not in str(src).split("def example_args")[0].split('"""')[2]


def test_what_functions_with_names_read_keeps_its_name():
    def f(x):
        x = jnp.sin(x) * 2
        shift = jnp.tanh(x) + 1

        def inner(y):
            return jnp.sum(jnp.tanh(y * x) * x + y @ x)

        first = jax.grad(inner)(shift)
        x = x * 3
        return x + first + jax.grad(inner)(shift * 2)

    def pulled(x):
        value, pull = jax.vjp(lambda y: jnp.sin(y) * x, x)
        x = x * 3
        return x + value + pull(x)[0]

    for function in (f, pulled):
        src = untrace.source(function)(np.ones(3, np.float32))
        assert src.report.strength == "identical"


def test_a_variable_keeps_the_shape_of_what_its_variable_held_before():
    def norm(x):
        orig_shape = x.shape
        x = x.reshape(-1, 2, x.shape[-1] // 2)
        x = (x - jnp.mean(x)) / jnp.sqrt(jnp.var(x) + 1e-5)
        return x.reshape(orig_shape) * 2

    def kept(x):
        shape = x.shape
        y = x.reshape(-1) * 2
        return jnp.cumsum(y).reshape(shape) + x

    src = untrace.source(norm)(np.ones((2, 3, 4), np.float32))
    assert src.report.strength == "identical"
    text = str(src)
    assert (
        "    orig_shape = x.shape\n    x = x.reshape(-1, 2, x.shape[-1] // 2)" in text
    )
    assert ".reshape(orig_shape)" in text and "x_2" not in text
    assert ".reshape(x.shape) + x" in str(untrace.source(kept)(np.ones((2, 3))))
