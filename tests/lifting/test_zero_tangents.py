"""Rules that do something else where a tangent is symbolically zero."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

import untrace


def scaled(tangent, factor):
    return tangent if isinstance(tangent, SymbolicZero) else tangent * factor


def added(x, y):
    if isinstance(x, SymbolicZero) or isinstance(y, SymbolicZero):
        return y if isinstance(x, SymbolicZero) else x
    return x + y


@jax.custom_jvp
def times(x, y):
    return jnp.where(y == 0, 0.0, x * y)


@functools.partial(times.defjvp, symbolic_zeros=True)
def times_jvp(primals, tangents):
    x, y = primals
    return times(x, y), added(scaled(tangents[0], y), scaled(tangents[1], x))


X = np.linspace(0, 1, 5, dtype=np.float32)


def recover(function, *args):
    src = untrace.source(function)(*args)
    assert src.report.is_verified
    assert not [note for note in src.report.notes if "equations" in note]
    scope = {}
    exec(compile(str(src), "recovered.py", "exec"), scope)
    for one in (lambda f: f, lambda f: jax.grad(lambda *a: jnp.sum(f(*a)), (0, 1))):
        expected = one(function)(*args)
        made = one(scope[function.__name__])(*args)
        jax.tree.map(np.testing.assert_allclose, made, expected)
    return str(src)


def test_a_rule_is_written_for_each_case_that_ran():
    def f(x, y):
        left = jax.grad(lambda x: jnp.sum(times(x, y)))(x)
        return left + jax.grad(lambda y: jnp.sum(jnp.sin(times(x, y))))(y)

    text = recover(f, X, X)
    assert "return jax.grad(" in text or "left = jax.grad(" in text
    assert "if zeros == [False, True]:" in text
    assert "if zeros == [True, False]:" in text
    assert "times.defjvp(times_rule, symbolic_zeros=True)" in text


def test_a_function_that_is_also_called_plainly_has_the_general_rule_too():
    def f(x, y):
        def step(total, row):
            return total + times(row, y), jnp.sum(total)

        total, sums = jax.lax.scan(step, jnp.zeros(()), x)
        grad = jax.grad(lambda x: jnp.sum(times(x, y) ** 2))(x)
        return total + jnp.sum(sums) + grad

    text = recover(f, X, np.float32(2))
    assert "times_rule" in text and "jax.lax.scan(step" in text


def test_one_rule_is_enough_if_zeros_make_no_difference():
    @jax.custom_jvp
    def first(x, y):
        return x * y

    @functools.partial(first.defjvp, symbolic_zeros=True)
    def first_jvp(primals, tangents):
        x, y = primals
        return first(x, y), tangents[0] * y

    def f(x, y):
        return jax.grad(lambda x: jnp.sum(first(x, y)))(x)

    text = recover(f, X, X)
    assert "first.defjvp(first_jvp, symbolic_zeros=True)" in text


def test_many_tangents_are_told_by_those_that_are_given():
    @jax.custom_jvp
    def weighted(weights):
        return sum(w * i for i, w in enumerate(weights))

    @functools.partial(weighted.defjvp, symbolic_zeros=True)
    def weighted_jvp(primals, tangents):
        given = [
            t * i for i, t in enumerate(tangents[0]) if not isinstance(t, SymbolicZero)
        ]
        return weighted(*primals), sum(given)

    def f(x, y):
        return jax.grad(lambda x: jnp.sum(weighted([y, x, *[y] * 8])))(x)

    text = recover(f, X, X)
    assert "if given == [1]:" in text


def test_a_rule_is_written_for_what_differentiating_the_program_gives_it():
    @jax.custom_jvp
    def total(a, b, c, d, e):
        return a + b + c + d + e

    @functools.partial(total.defjvp, symbolic_zeros=True)
    def total_jvp(primals, tangents):
        given = [t for t in tangents if not isinstance(t, SymbolicZero)]
        return total(*primals), 3.0 * given[0] + sum(given[1:])

    def program(x, y):
        ones = jnp.ones_like(x)
        return total(x, ones, y, ones, ones)

    text = recover(program, X, X)
    assert "if zeros == [False, True, False, True, True]:" in text
