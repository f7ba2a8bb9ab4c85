"""Functions that are rational between knots, of which a comparison chooses the bin."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.interpreters.inverting import check_log_det, vector

X = np.array([-4.1, -2.2, -0.6, 0.3, 1.7, 2.9, 3.5], np.float32)


def knots(params: Any) -> tuple[Any, Any, Any]:
    """Return positions, values and slopes of a monotone spline on [-3, 3]."""
    zero = jnp.zeros((*params.shape[:-2], 1), params.dtype)

    def steps(weights: Any) -> Any:
        sizes = 6 * jax.nn.softmax(weights)
        return jnp.concatenate([zero, jnp.cumsum(sizes, axis=-1)], axis=-1) - 3

    slopes = jax.nn.softplus(params[..., 2, :-1])
    ends = zero + 1
    return (
        steps(params[..., 0, :]),
        steps(params[..., 1, :]),
        jnp.concatenate([ends, slopes, ends], axis=-1),
    )


def within(x: Any, xs: Any, ys: Any, slopes: Any, next_ones: Any) -> Any:
    """Return the rational quadratic function in one bin (Durkan et al. 2019)."""
    xs_2, ys_2, slopes_2 = next_ones
    width, height = xs_2 - xs, ys_2 - ys
    steep, t = height / width, (x - xs) / width
    above = height * (steep * t**2 + slopes * t * (1 - t))
    below = steep + (slopes_2 + slopes - 2 * steep) * t * (1 - t)
    return ys + above / below


def searched(x: Any, params: Any) -> Any:
    """Look the bin up; clip against rounding; identity outside."""
    xs, ys, slopes = knots(params)
    inside = jnp.clip(x, -3, 3)
    k = jnp.clip(jnp.searchsorted(xs, inside) - 1, 0, len(xs) - 2)
    made = within(
        inside, xs[k], ys[k], slopes[k], (xs[k + 1], ys[k + 1], slopes[k + 1])
    )
    return jnp.where((x >= -3) & (x <= 3), jnp.clip(made, -3, 3), x)


def compared(x: Any, params: Any) -> Any:
    """Compare with all knots, and sum what is in the bin; linear outside."""
    xs, ys, slopes = knots(params)
    x_wide = x[..., None]
    is_in = (x_wide >= xs[..., :-1]) & (x_wide < xs[..., 1:])
    first = jnp.arange(xs.shape[-1] - 1) == 0
    is_in = jnp.where(is_in.any(-1, keepdims=True), is_in, first)
    table = jnp.stack([xs, ys, slopes], axis=-1)
    low = (is_in[..., None] * table[..., :-1, :]).sum(-2)
    high = (is_in[..., None] * table[..., 1:, :]).sum(-2)
    low, high = jnp.moveaxis(low, -1, 0), jnp.moveaxis(high, -1, 0)
    x_in = jnp.clip(x, low[0], high[0])
    made = within(x_in, low[0], low[1], low[2], high)
    made = jnp.where(
        x <= xs[..., 0], (x - xs[..., 0]) * slopes[..., 0] + ys[..., 0], made
    )
    return jnp.where(
        x >= xs[..., -1], (x - xs[..., -1]) * slopes[..., -1] + ys[..., -1], made
    )


def chosen(x: Any, params: Any) -> Any:
    """Find the bin by argmax, and read its numbers by a product with a one-hot row."""
    xs, ys, slopes = knots(params)
    k = jnp.argmax(x[:, None] < jnp.append(xs[1:-1], jnp.inf), axis=-1)
    one_hot = jax.nn.one_hot(k, len(xs) - 1, dtype=x.dtype)
    low = one_hot @ jnp.stack([xs, ys, slopes])[:, :-1].T
    high = one_hot @ jnp.stack([xs, ys, slopes])[:, 1:].T
    made = within(x, low[:, 0], low[:, 1], low[:, 2], high.T)
    return jnp.where(jnp.abs(x) < 3, made, x)


PARAMS = np.asarray(vector(15)).reshape(3, 5)
MANY = np.asarray(vector(15 * 7, seed=1)).reshape(7, 3, 5)

SPLINES = {
    "searched": lambda x: searched(x, jnp.asarray(PARAMS, x.dtype)),
    "mapped": lambda x: jax.vmap(searched)(x, jnp.asarray(MANY, x.dtype)),
    "compared": lambda x: compared(x, jnp.asarray(PARAMS, x.dtype)),
    "chosen": lambda x: chosen(x, jnp.asarray(PARAMS, x.dtype)),
    "within others": lambda x: jnp.sinh(
        2 * compared(jnp.arcsinh(x) + 1, jnp.asarray(PARAMS, x.dtype))
    ),
    "twice": lambda x: searched(
        -searched(x, jnp.asarray(PARAMS, x.dtype)), jnp.asarray(PARAMS[::-1], x.dtype)
    ),
    "lines": lambda x: x + jnp.interp(x, jnp.arange(-3.0, 3), jnp.arange(6.0) ** 2),
    "softsign": lambda x: x / (1 + jnp.abs(x)),
    "leaky": lambda x: jnp.maximum(x, 0.1 * x),
    "bent": lambda x: 2 * x + jnp.minimum(x, 1) + jnp.clip(x, -1, 1),
    "square": lambda x: x + jnp.abs(x) * x,
    "relu": lambda x: x + jax.nn.relu(x) ** 2,
    "hard": lambda x: jnp.where(
        x > 2, x + 0.8, jnp.where(x > -2, x + x**2 / 5, 3 * x + 4.8)
    ),
}


@pytest.mark.parametrize("name", SPLINES)
def test_splines_are_inverted_with_log_det(name: str) -> None:
    check_log_det(jax.jit(SPLINES[name]), jnp.asarray(X), atol=1e-4)


def test_scalars_and_batches_of_them() -> None:
    f = lambda x: searched(x, jnp.asarray(PARAMS))
    inverted = untrace.inverse_and_log_det(f)
    y = jax.vmap(f)(X)
    for back in (jax.vmap(inverted), jax.jit(jax.vmap(inverted))):
        x, log_det = back(y)
        np.testing.assert_allclose(x, X, rtol=1e-4, atol=1e-5)
        wanted = -jnp.log(jax.vmap(jax.grad(f))(X))
        np.testing.assert_allclose(log_det, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.corpus
def test_parameters_may_come_from_a_network() -> None:
    w = vector(45, seed=3).reshape(3, 15)

    def f(x: Any) -> Any:
        a, b = jnp.split(x, 2)
        params = jnp.tanh(jnp.outer(a, w[0]) + w[1])
        return jnp.concatenate([a, compared(b, params.reshape(3, 3, 5))])

    check_log_det(f, jnp.asarray(X[:6]), atol=1e-4)


@pytest.mark.corpus
def test_derivatives_by_results_and_parameters() -> None:
    with jax.enable_x64(True):
        x, params = jnp.asarray(X, jnp.float64), jnp.asarray(PARAMS, jnp.float64)
        y = searched(x, params)
        inverted = untrace.inverse(searched, argnums=0)
        by_y, by_params = jax.jacrev(inverted, (0, 1))(y, params)
        forward, by_others = jax.jacfwd(searched, (0, 1))(x, params)
        np.testing.assert_allclose(by_y, jnp.linalg.inv(forward), atol=1e-8)
        wanted = -jnp.einsum("ij,jkl->ikl", jnp.linalg.inv(forward), by_others)
        np.testing.assert_allclose(by_params, wanted, atol=1e-8)
        bend = jax.vmap(jax.grad(jax.grad(lambda x: searched(x, params))))(x)
        second = jax.vmap(jax.grad(jax.grad(lambda y: inverted(y, params))))(y)
        np.testing.assert_allclose(second, -bend / forward.diagonal() ** 3, atol=1e-6)


def test_knots_are_found_from_both_sides() -> None:
    f = lambda x: compared(x, jnp.asarray(PARAMS))
    x = knots(jnp.asarray(PARAMS))[0]
    x = jnp.concatenate([x, jnp.nextafter(x, jnp.inf), jnp.nextafter(x, -jnp.inf)])
    np.testing.assert_allclose(untrace.inverse(f)(f(x)), x, rtol=1e-5, atol=1e-5)


def test_what_several_bins_tell_or_none_is_nan() -> None:
    xs, ys, slopes = jnp.array([[0.0, 1, 2, 3], [0, 2, 1, 3], [2, -1, 2, 2]])

    def zigzag(x: Any) -> Any:
        k = jnp.clip(jnp.searchsorted(xs, x) - 1, 0, 2)
        return jnp.where(x >= 0, ys[k] + slopes[k] * (x - xs[k]), x - 1)

    found = untrace.inverse(zigzag)(jnp.array([-3.0, -0.5, 0.5, 1.5, 2.5]))
    np.testing.assert_array_equal(found, [-2, np.nan, 0.25, np.nan, 2.75])
    parabola = lambda x: jnp.where(x > 5, x, x * x)
    found = untrace.inverse(parabola)(jnp.array([-1.0, 4.0, 64.0]))
    np.testing.assert_array_equal(found, [np.nan, np.nan, np.nan])


def test_what_is_cut_off_inside_of_a_bin_is_nan() -> None:
    def folded(x: Any) -> Any:
        """Turn back at a place that depends on the bin."""
        end = jnp.where(x >= 0, 0.5, 0.25)
        return x - 2 * jnp.maximum(x - end, 0)

    y = folded(jnp.array([0.25, 0.75]))
    assert y[0] == y[1] and jnp.isnan(untrace.inverse(folded)(y)).all()


def test_what_lies_between_knots_may_be_asked_for() -> None:
    xs, ys = jnp.array([0.0, 1, 2]), jnp.array([0.0, 2, 4])

    def beyond(x: Any) -> Any:
        """Go on beyond the knots as a parabola, which comes back."""
        k = jnp.clip(jnp.searchsorted(xs, x) - 1, 0, 1)
        return ys[k] + (x - xs[k]) + (x - xs[k]) ** 2

    x = jnp.array([0.25, 1.5, 1.75])
    assert jnp.isnan(untrace.inverse(beyond)(beyond(x))).all()
    found = untrace.inverse(beyond, principal=True)(beyond(x))
    np.testing.assert_allclose(found, x, rtol=1e-5)


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (lambda x: jnp.where(x > 0, x, x**3 + x), "between knots it is a quotient of"),
        (lambda x: x * jnp.floor(x), "two unknowns"),
        (lambda x: jnp.where(x > jnp.exp(x) - 2, x, 2 * x * x + x), "cannot be solved"),
        (lambda x: x + (x > x.mean()), "two unknowns"),
        (lambda x: x + (x[::-1] > 0), "two unknowns"),
    ],
)
def test_other_functions_of_comparisons_are_refused(f: Any, why: str) -> None:
    with pytest.raises(untrace.InverseError, match=why):
        untrace.inverse(f)(jnp.asarray(X))


def test_source_of_the_inverse_of_a_spline_is_verified() -> None:
    f = lambda x: jnp.maximum(x, 0.1 * x)
    made = untrace.source(untrace.inverse(f))(jnp.asarray(X))
    assert made.report.strength in ("identical", "equivalent")
