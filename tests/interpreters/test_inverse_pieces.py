"""Functions in pieces, whose conditions depend on what is not known."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

X = jnp.array([-2.5, -1.0, -1e-3, -1e-9, 0.0, 1e-9, 1e-3, 0.3, 0.6, 2.0])


def in_three(x: Any) -> Any:
    return jnp.where(x > 1, 2 * x - 1, jnp.where(x < -1, 3 * x + 2, x))


def stable_sigmoid(x: Any) -> Any:
    return jnp.where(x < -9, jnp.exp(x), jax.nn.sigmoid(x))  # as in distrax


PIECES = {
    "bent": lambda x: jnp.where(x > 0, x, 2 * x),
    "leaky": lambda x: jnp.where(x >= 0, x, 0.01 * x),
    "exponential": lambda x: jnp.where(x > 0, x, jnp.expm1(x)),
    "falling": lambda x: jnp.where(x > 0, -x, 1 - 3 * x),
    "roots": lambda x: jnp.where(x > 0, jnp.sqrt(x), -jnp.sqrt(-x)),
    "logarithms": lambda x: jnp.where(x > 0, jnp.log1p(x), -jnp.log1p(-x)),
    "of a value": lambda x: jnp.exp(jnp.where(jnp.tanh(x) > 0.1, 2 * x, x + 0.1)),
    "moved": lambda x: 2 * jnp.where(x > 0, x, 2 * x)[::-1],
    "three": in_three,
    "sigmoid": stable_sigmoid,
}


@pytest.mark.parametrize("name", PIECES)
def test_functions_in_pieces_are_inverted(name: str) -> None:
    f = PIECES[name]
    inverted = untrace.inverse(f)
    mapped = inverted if name == "moved" else jax.vmap(inverted)
    for back in (inverted, jax.jit(inverted), mapped):
        np.testing.assert_allclose(back(f(X)), X, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", PIECES)
def test_log_det_is_that_of_the_piece(name: str) -> None:
    x = X[np.array([0, 2, 7, 9])]
    f = PIECES[name]
    _, found = untrace.inverse_and_log_det(f)(f(x))
    wanted = -jnp.linalg.slogdet(jax.jacfwd(f)(x))[1]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_known_values_may_choose_and_scale() -> None:
    def f(x: Any, a: Any) -> Any:
        return jnp.where(x > a, a + 3 * (x - a), x)

    a = jnp.linspace(-1, 1, len(X))
    found = untrace.inverse(f, argnums=0)(f(X, a), a)
    np.testing.assert_allclose(found, X, rtol=1e-4, atol=1e-6)


def test_what_two_pieces_tell_is_nan() -> None:
    folded = lambda x: jnp.where(x > 0, x, -x)
    found = untrace.inverse(folded)(folded(X))
    assert jnp.isnan(found[X != 0]).all() and found[4] == 0
    _, log_det = untrace.inverse_and_log_det(folded)(folded(X))
    assert jnp.isnan(log_det)
    partly = lambda x: jnp.where(x > 1, x - 2, x)  # -1 < y <= 1 has two origins
    found = untrace.inverse(partly)(jnp.array([-3.0, 0.0, 0.5, 3.0]))
    np.testing.assert_array_equal(found, [-3.0, np.nan, np.nan, 5.0])


def test_what_no_piece_tells_is_nan() -> None:
    jumping = lambda x: jnp.where(x > 0, x + 1, x - 1)
    found = untrace.inverse(jumping)(jnp.array([-2.0, 0.0, 0.5, 2.0]))
    np.testing.assert_array_equal(found, [-1.0, np.nan, np.nan, 1.0])


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (lambda x: jnp.where(x > 0, x, 0.0), "one of the values that it selects from"),
        (lambda x: jnp.where(x.sum() > 0, x, 2 * x), "depends on what is not known"),
        (lambda x: jnp.where(x[::-1] > 0, x, 2 * x), "depends on what is not known"),
        (lambda x: jnp.where(x > 0, x, jnp.cumsum(x)), "depends on what is not known"),
    ],
)
def test_pieces_that_are_not_of_each_element_alone_are_refused(
    f: Any, why: str
) -> None:
    with pytest.raises(untrace.InverseError, match=why):
        untrace.inverse(f)(X)


def test_source_of_a_function_in_pieces_is_verified() -> None:
    made = untrace.source(untrace.inverse(PIECES["bent"]))(X)
    assert made.report.strength == "identical" and "jnp.where" in str(made)


def test_sigmoid_of_distrax_is_inverted() -> None:
    distrax = pytest.importorskip("distrax")
    f = distrax.Sigmoid().forward
    x, log_det = untrace.inverse_and_log_det(f)(f(X))
    np.testing.assert_allclose(x, X, rtol=1e-4, atol=1e-6)
    wanted = distrax.Sigmoid().inverse_log_det_jacobian(f(X)).sum()
    np.testing.assert_allclose(log_det, wanted, rtol=1e-4)


STEEP = {
    "power": (
        lambda x: jnp.where(x > 0, x**4, x),
        lambda x: jnp.where(x > 0, 4 * x**3, 1),
    ),
    "gap": (
        lambda x: jnp.where(x > 0, jnp.exp(x), x),
        lambda x: jnp.where(x > 0, jnp.exp(x), 1),
    ),
    "root": (
        lambda x: jnp.where(x > 1, 2 * x - 1, 1 - jnp.cbrt(1 - x)),
        lambda x: jnp.where(x > 1, 2, jnp.abs(1 - x) ** (-2 / 3) / 3),
    ),
    "angle": (
        lambda x: jnp.where(jnp.abs(x) < 1, jnp.tanh(x), x),
        lambda x: jnp.where(jnp.abs(x) < 1, 1 - jnp.tanh(x) ** 2, 1),
    ),
}


@pytest.mark.parametrize("name", STEEP)
def test_derivatives_are_those_of_the_piece_alone(name: str) -> None:
    f, slope = STEEP[name]
    x = jnp.array([-2.0, -0.7, 0.0, 0.3, 0.8, 1.5])
    inverted = untrace.inverse_and_log_det(f, principal=True)
    back = jax.vmap(jax.grad(lambda y: inverted(y)[0]))(f(x))
    np.testing.assert_allclose(back, 1 / slope(x), rtol=1e-4)
    log_det = jax.vmap(jax.grad(lambda y: inverted(y)[1]))(f(x))
    bend = jax.vmap(jax.grad(lambda x: -jnp.log(jnp.float32(slope(x)))))(x)
    np.testing.assert_allclose(log_det, bend / slope(x), rtol=1e-3, atol=1e-5)


def test_a_piece_in_which_a_value_lies_goes_before_one_at_its_end() -> None:
    f = lambda x: jnp.where(x > 0, jnp.log1p(x), x)
    x = -jnp.geomspace(1e-8, 1e-6, 40)
    np.testing.assert_array_equal(untrace.inverse(f)(f(x)), x)


def test_values_beside_a_jump_are_told_from_those_beyond_it() -> None:
    x = jnp.linspace(-9.01, -8.99, 2001)
    found = untrace.inverse(stable_sigmoid)(stable_sigmoid(x))
    beside = (x >= -9.000125) & (x <= -8.99987)  # there are two origins of each value
    np.testing.assert_allclose(found[~beside], x[~beside], rtol=1e-6)
    np.testing.assert_allclose(found[beside], x[beside], rtol=2e-5)
