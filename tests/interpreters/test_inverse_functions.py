"""Small functions of one and several arguments, by their values: what oryx can, and more.

The functions are those that the tests of oryx's `inverse`, `ildj` and `custom_inverse` are
about, with values worked out by hand.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

LOG2 = float(np.log(2.0))

VALUES = [
    # function, the result, the argument, log |dx/dy|
    (lambda x: x, 1.0, 1.0, 0.0),
    (lambda x: x * 2.0, 1.0, 0.5, -LOG2),
    (lambda x: 2.0 * x, 1.0, 0.5, -LOG2),
    (lambda x: x / 2, 2.0, 4.0, LOG2),
    (lambda x: 3.0 / x, 2.0, 1.5, np.log(3 / 4)),
    (jnp.exp, 2.0, LOG2, -LOG2),
    (jnp.exp, 2 * np.ones(2), np.full(2, LOG2), -2 * LOG2),
    (jnp.sqrt, 3.0, 9.0, np.log(6.0)),
    (lambda x: jax.lax.integer_pow(x, 3), 2.0, np.cbrt(2.0), -np.log(3 * 2 ** (2 / 3))),
    (jnp.reciprocal, 2.0, 0.5, np.log(1 / 4)),
    (lambda x: jax.lax.pow(x, 2.0), 2.0, np.sqrt(2.0), -np.log(2 * np.sqrt(2.0))),
    (
        lambda y: jax.lax.pow(2.0, y),
        3.0,
        np.log2(3.0),
        -np.log(3 * LOG2),
    ),
    (jax.nn.softplus, 0.1, np.log(np.expm1(0.1)), -np.log(-np.expm1(-0.1))),
    (lambda x: jax.jit(lambda x: x)(x) / 2.0, 2.0, 4.0, LOG2),
    (lambda x: jax.jit(lambda x: 3.0 / x)(x), 2.0, 1.5, np.log(3 / 4)),
    (lambda x: jax.named_scope("foo")(lambda x: x)(x) / 2, 2.0, 4.0, LOG2),
]


@pytest.mark.parametrize(("f", "y", "x", "log_det"), VALUES)
def test_values_by_hand(f: Any, y: Any, x: Any, log_det: Any) -> None:
    found, made = untrace.inverse_and_log_det(f)(y)
    np.testing.assert_allclose(found, x, rtol=1e-6)
    np.testing.assert_allclose(made, log_det, rtol=1e-6)


def test_even_powers_are_inverted_on_request() -> None:
    square = functools.partial(jax.lax.integer_pow, y=2)
    found, made = untrace.inverse_and_log_det(square, principal=True)(2.0)
    np.testing.assert_allclose(found, np.sqrt(2.0), rtol=1e-6)
    np.testing.assert_allclose(made, -np.log(2 * np.sqrt(2.0)), rtol=1e-6)


SEVERAL = [
    (lambda x, y: (x, y), (1.0, 2.0), (1.0, 2.0)),
    (lambda x, y: (x + 1.0, jnp.exp(x + 1.0) + y), (0.0, 2.0), (-1.0, 1.0)),
    (lambda x, y: (jnp.exp(x), x**2 + y), (2.0, 2.0), (LOG2, 2 - LOG2**2)),
    (
        lambda x, y, z: (jnp.exp(x), x**2 + y, jnp.exp(z + y)),
        (2.0, 2.0, 2.0),
        (LOG2, 2 - LOG2**2, LOG2 - 2 + LOG2**2),
    ),
    (
        lambda x, y: (x + 2.0, jnp.exp(x) + y),
        (3.0, float(np.exp(1.0)) + 1),
        (1.0, 1.0),
    ),
]


@pytest.mark.parametrize(("f", "ys", "xs"), SEVERAL)
def test_several_arguments_have_a_triangular_jacobian(f: Any, ys: Any, xs: Any) -> None:
    found, made = untrace.inverse_and_log_det(f)(*ys)
    np.testing.assert_allclose(found, xs, rtol=1e-6, atol=1e-6)
    matrix = jax.jacobian(lambda x: jnp.stack(f(*x)))(jnp.array(xs))
    np.testing.assert_allclose(made, -jnp.linalg.slogdet(matrix)[1], atol=1e-6)


def test_arrays_are_split_joined_and_reshaped() -> None:
    ones = jnp.ones(2)
    inverted = untrace.inverse_and_log_det(lambda x: jnp.split(x, 2), jnp.ones(4))
    x, log_det = inverted([ones, 2 * ones])
    np.testing.assert_array_equal(x, [1, 1, 2, 2])
    assert log_det == 0
    joined = untrace.inverse_and_log_det(
        lambda x, y: jnp.concatenate([x, y]), ones, ones
    )
    (x, y), log_det = joined(jnp.arange(4.0))
    np.testing.assert_array_equal(x, [0, 1])
    np.testing.assert_array_equal(y, [2, 3])
    assert log_det == 0
    flat = untrace.inverse_and_log_det(lambda x: x.reshape(4), jnp.ones((2, 2)))
    x, log_det = flat(jnp.arange(4.0))
    np.testing.assert_array_equal(x, [[0, 1], [2, 3]])
    assert log_det == 0


def test_functions_without_an_inverse_are_refused() -> None:
    def constant(x: Any) -> Any:
        del x
        return 1.0

    with pytest.raises(untrace.InverseError, match="input `x` reaches no result"):
        untrace.inverse(constant)(1.0)
    with pytest.raises(untrace.InverseError, match="rank 1, for 2 unknown"):
        untrace.inverse(lambda x, y: (x + y, x + y))(1.0, 2.0)
    with pytest.raises(untrace.InverseError, match="two unknowns"):
        untrace.inverse(lambda x: x * jnp.log(x))(2.0)


def test_whole_functions_keep_the_digits_of_extreme_values() -> None:
    """The equations of a sigmoid, inverted one by one, lose them."""
    y = jnp.float32(0.9999)
    exact = np.log(np.float64(y)) - np.log1p(-np.float64(y))
    wanted = -np.log(np.float64(y)) - np.log1p(-np.float64(y))
    found, made = untrace.inverse_and_log_det(jax.nn.sigmoid)(y)
    np.testing.assert_allclose(found, exact, rtol=1e-6)
    np.testing.assert_allclose(made, wanted, rtol=1e-6)
    written_out = lambda x: 1.0 / (1 + jnp.exp(-x))
    found = untrace.inverse(written_out)(y)
    assert abs(found - exact) > 1e-5
    logit = untrace.inverse_and_log_det(jax.scipy.special.logit)
    x, made = logit(-50.0)
    np.testing.assert_allclose(x, np.exp(-50.0), rtol=1e-5)
    np.testing.assert_allclose(made, -50.0, rtol=1e-6)


def test_forward_values_reach_the_handlers_of_other_tools() -> None:
    """What an inverse evaluates forward is an equation as any other."""

    def f(x: Any, y: Any) -> Any:
        return x, jax.named_scope("kept")(jnp.sin)(x) * y

    seen: list[str] = []

    def handler(step: Any, *operands: Any) -> Any:
        seen.append(step.name)
        return step(*operands)

    untrace.interpret(untrace.inverse(f), handler)(1.0, 1.0)
    assert seen == ["sin", "div"]


# ---- inverses of one's own ---------------------------------------------------------


def test_own_inverses_and_log_dets_take_the_place_of_derived_ones() -> None:
    def make() -> Any:
        add_one = jax.jit(lambda x: x + 1.0)
        return add_one

    add_one = make()
    assert untrace.inverse(add_one)(1.0) == 0
    untrace.register_inverse(add_one, jnp.exp, log_det=4.0)
    found, made = untrace.inverse_and_log_det(add_one)(2.0)
    np.testing.assert_allclose(found, np.exp(2.0), rtol=1e-6)
    assert made == 4


def test_own_inverses_of_two_operands() -> None:
    add = jax.jit(lambda x, y: x + y)
    left, right = functools.partial(add, 1.0), lambda x: add(x, 1.0)
    assert untrace.inverse(left)(2.0) == 1 == untrace.inverse(right)(2.0)
    untrace.register_inverse(add, lambda z, y: z / 4, lambda z, x: z**2, log_det=3.0)
    assert untrace.inverse_and_log_det(left)(2.0) == (4, 3)
    assert untrace.inverse_and_log_det(right)(2.0) == (0.5, 3)


def test_own_inverses_of_pytrees() -> None:
    dense = jax.jit(lambda params, x: params[0] * x + params[1])
    apply = functools.partial(dense, (2.0, 1.0))
    assert untrace.inverse(apply)(5.0) == 2
    untrace.register_inverse(
        dense,
        None,
        None,
        lambda y, w, b: w * y,
        log_det=lambda x, y, w, b: jnp.log(jnp.abs(w)),
    )
    found, made = untrace.inverse_and_log_det(apply)(5.0)
    assert found == 10
    np.testing.assert_allclose(made, LOG2, rtol=1e-6)


def test_bijectors_of_tensorflow_probability() -> None:
    tfb = pytest.importorskip("tensorflow_probability.substrates.jax").bijectors
    one, two = jnp.float32(1.0), jnp.float32(2.0)
    matrix = jnp.array([[1.0, 0.0], [0.3, 2.0]])
    cases = [
        (tfb.Exp(), one),
        (tfb.Shift(3.0), one),
        (tfb.Scale(2.0), one),
        (tfb.TransformDiagonal(tfb.Exp()), matrix),
        (tfb.Invert(tfb.Exp()), one),
        (tfb.Softplus(), two),
        (tfb.Sigmoid(), jnp.float32(0.3)),
        (tfb.Power(3.0), jnp.float32(0.3)),
        (tfb.Chain([tfb.Exp(), tfb.Scale(2.0), tfb.Shift(1.0)]), two),
        (tfb.ScaleMatvecTriL(matrix), jnp.array([0.5, 2.0])),
    ]
    for bijector, y in cases:
        found, made = untrace.inverse_and_log_det(bijector.forward)(y)
        np.testing.assert_allclose(found, bijector.inverse(y), rtol=1e-5, atol=1e-6)
        wanted = bijector.inverse_log_det_jacobian(y, jnp.ndim(y))
        np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-6)
