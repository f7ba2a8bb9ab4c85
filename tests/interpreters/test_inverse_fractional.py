"""Linear fractional functions of one value that several equations use."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.interpreters.inverting import check_log_det, check_round_trip, vector

A, B = 1.5 + np.arange(6, dtype=np.float32), np.float32(0.7)


def sigmoid(x: Any) -> Any:
    return jnp.exp(x) / (1 + jnp.exp(x))


def tangent(x: Any) -> Any:
    return (jnp.exp(2 * x) - 1) / (jnp.exp(2 * x) + 1)


def of_odds(x: Any) -> Any:
    odds = jax.nn.sigmoid(x) / (1 - jax.nn.sigmoid(x))
    return odds / (3 + odds)


def moebius(x: Any) -> Any:
    return (A * x + B) / (1 - x * B / A) - 2


def reciprocal(x: Any) -> Any:
    u = jnp.exp(x)
    return 1 / (u + 1 / (u * 2 + 1) ** -1)


def with_mask(x: Any) -> Any:
    mask = np.array([0, 1, 1, 0, 1, 1], np.float32)
    return 2 * x + mask * x


FRACTIONS = {
    "sigmoid": sigmoid,
    "tangent": tangent,
    "hidden": lambda x: 1 - 2 / (jnp.exp(2 * x) + 1),
    "odds": of_odds,
    "moebius": moebius,
    "reciprocal": reciprocal,
    "sum": lambda x: A * x + B * x,
    "difference": lambda x: jnp.sinh(x) - A * jnp.sinh(x),
    "mask": with_mask,
    "softsign": lambda x: jnp.where(x > 0, x / (1 + x), x / (1 - x)),
    "in a call": lambda x: jax.jit(sigmoid)(x + 1) * 3,
    "in turns": lambda x: jax.lax.fori_loop(0, 3, lambda _, x: x / (9 + x), x),
}


@pytest.mark.parametrize("name", FRACTIONS)
def test_linear_fractional_functions_are_inverted_with_log_det(name: str) -> None:
    check_log_det(FRACTIONS[name], vector())


def test_coefficients_may_be_computed() -> None:
    def f(x: Any, w: Any) -> Any:
        a, b = jnp.split(x, 2)
        u, s = jnp.exp(b), jnp.exp(w @ a)
        return jnp.concatenate([a, (s * u - 1) / (u + s)])

    w = vector(9, 1).reshape(3, 3)
    check_log_det(lambda x: f(x, w), vector())


def test_large_arrays_need_no_matrix() -> None:
    check_round_trip(lambda x: x / 3 + x, vector(10_000))
    check_round_trip(lambda x: x / (9 + x), vector(10_000), atol=1e-3)


def test_elements_that_are_known_stay() -> None:
    # The first element is lost in the sum, and known from the other result.
    f = lambda x: (x[0], (x - x * np.array([1, 0, 3, 0, 3, 0], np.float32))[1:])
    check_log_det(f, vector())


def test_complex_numbers_count_twice() -> None:
    def f(pair: Any) -> Any:
        z = jax.lax.complex(*pair)
        made = z / (z + 3j)
        return made.real, made.imag

    check_log_det(f, (vector(), vector(seed=1)))


def test_the_inverse_is_differentiated_and_mapped() -> None:
    x = vector()
    inverted = untrace.inverse(sigmoid)
    slopes = jax.jit(jax.vmap(jax.grad(inverted)))(sigmoid(x))
    np.testing.assert_allclose(slopes, 1 / jax.vmap(jax.grad(sigmoid))(x), rtol=1e-4)


def test_source_reads_as_a_person_would_write_it() -> None:
    def text(f: Any) -> str:
        made = untrace.source(untrace.inverse(f))(vector())
        assert made.report.strength == "identical"
        return str(made)

    assert "return jnp.log(y / (1.0 - y))" in text(sigmoid)
    assert "return jnp.log((y + 1.0) / (1.0 - y)) / 2.0" in text(tangent)
    assert "return 3.0 * y / (1.0 - y)" in text(lambda x: x / (3 + x))


REFUSED = [
    (lambda x: x + x * x, "`add`.*quadratic in its input.*register_inverse"),
    (lambda x: jnp.exp(x) * (1 - jnp.exp(x)), "quadratic in the result of `exp`"),
    (lambda x: x**3 / (1 + x), "a quotient of degree 3 in its input"),
    (lambda x: x / (x + x), "`div`.*its input cancels"),
    (lambda x: jnp.exp(x) - jnp.exp(x), "the result of `exp` cancels"),
    (
        lambda x: x / (x + np.array([0, 1, 1, 1, 1, 0], np.float32)),
        "2 of 6 results do not depend on its input",
    ),
    (lambda x: x / (1 + x[::-1]), "two unknowns"),
    (lambda x: jnp.exp(x) + jnp.tanh(x), "two unknowns"),
]


@pytest.mark.parametrize(("f", "why"), REFUSED)
def test_other_functions_are_refused(f: Any, why: str) -> None:
    with pytest.raises(untrace.InverseError, match=why):
        untrace.inverse(f)(vector())
