"""Each rule: a round trip, and log |det| against that of the Jacobian."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.fft
import jax.scipy.special
import numpy as np
import pytest

import untrace
from tests.interpreters.inverting import (
    check_log_det,
    check_round_trip,
    true_log_det,
    vector,
)

X = vector()
P = jnp.abs(X) + 0.1  # positive
U = jnp.array([0.1, 0.3, 0.5, 0.7, 0.9, 0.2])  # between 0 and 1
M = jax.random.normal(jax.random.key(1), (6, 6))
TALL = jax.random.normal(jax.random.key(2), (7, 6))
ORDER = np.array([2, 0, 1, 5, 3, 4], np.int32)

ELEMENTWISE = [
    (jnp.exp, X), (jnp.exp2, X), (jnp.log, P), (jnp.log2, P), (jnp.expm1, X),
    (jnp.log1p, P), (jax.nn.sigmoid, X), (jax.lax.erf, U), (jax.lax.erf_inv, U),
    (jax.lax.erfc, U), (jnp.tanh, X), (jnp.arctanh, U), (jnp.sinh, X),
    (jnp.arcsinh, X), (jnp.arccosh, P + 1), (jnp.arcsin, U), (jnp.arccos, U),
    (jnp.arctan, X), (lambda x: x**3, P), (lambda x: x**-1, P), (lambda x: x**5, P),
    (lambda x: x**3, -P), (jnp.sqrt, P), (jax.lax.rsqrt, P), (jnp.cbrt, P),
    (lambda x: x**2.5, P), (lambda x: 2.5**x, X), (jnp.negative, X),
    (lambda x: 3 + x, X), (lambda x: P + x, X), (lambda x: 3 - x, X),
    (lambda x: x - P, X), (lambda x: x * P, X), (lambda x: x / P, X),
    (lambda x: P / x, P + 1), (lambda x: jnp.arctan2(x, P), P),
    (lambda x: jnp.arctan2(P, x), P), (jax.scipy.special.logit, U),
    (jax.nn.softplus, X), (jax.nn.log_sigmoid, X), (jax.nn.soft_sign, X),
    (jax.nn.leaky_relu, X), (lambda x: jax.nn.leaky_relu(x, 0.3), X),
    (jax.nn.elu, X), (lambda x: jax.nn.elu(x, 0.5), X), (jax.nn.celu, X),
    (lambda x: jax.nn.celu(x, 2.0), X), (jax.nn.squareplus, X),
    (lambda x: jnp.logaddexp(x, P), X), (lambda x: jnp.logaddexp(P, x), X),
    (lambda x: jnp.logaddexp2(P, x), X),
    (lambda x: jax.lax.optimization_barrier(x) * 2, X),
]  # fmt: skip

STRUCTURE = [
    (lambda x: x.reshape(2, 3).T, X), (lambda x: x[::-1], X),
    (lambda x: jnp.concatenate([x[3:], x[:3] * 2]), X), (lambda x: jnp.roll(x, 2), X),
    (lambda x: jnp.stack([x[0::3], x[1::3], x[2::3]]), X),
    (lambda x: jnp.stack([*x]), X), (lambda x: jnp.stack(jnp.unstack(x)[::-1]), X),
    (lambda x: x[ORDER], X), (lambda x: jnp.take(x, ORDER) * 2, X),
    (lambda x: x.reshape(2, 3)[:, jnp.array([1, 2, 0])], X),
    (lambda x: jnp.concatenate([jnp.exp(p) for p in jnp.split(x, 3)]), X),
    (lambda x: x.at[2].set(x[2] * 3), X), (lambda x: x.at[ORDER].set(x * 2), X),
    (lambda x: x.at[::2].add(jnp.sin(x[1::2])), X),
    (lambda x: x.at[::2].multiply(jnp.exp(x[1::2])), X),
    (lambda x: x.at[:3].subtract(x[3:] ** 2), X),
    (lambda x: jax.lax.dynamic_update_slice(x, jnp.sinh(x[2:4]), (2,)), X),
    (lambda x: jnp.concatenate(
        [jax.lax.dynamic_slice(x, (i,), (2,)) for i in (4, 0, 2)]), X),
    (lambda x: jnp.where(jnp.arange(6) % 2 == 0, x * 2, jnp.sinh(x)), X),
    (lambda x: jnp.expand_dims(x, (0, 2)).squeeze(2), X),
    (lambda x: jax.lax.reshape(x.reshape(2, 3), (6,), (1, 0)), X),
    (lambda x: jnp.linalg.inv(x.reshape(2, 2)), X[:4]),
]  # fmt: skip

LINEAR = [
    (lambda x: M @ x, X), (lambda x: x @ M, X),
    (lambda x: M[:3, :3] @ x.reshape(3, 2), X), (lambda x: x.reshape(2, 3) @ M[:3, :3], X),
    (lambda x: jnp.einsum("bij,bj->bi", M[:, :4].reshape(6, 2, 2)[:3], x.reshape(3, 2)), X),
    (lambda x: jnp.einsum("abij,ijcd->cabd", x.reshape(2, 1, 3, 1),
                          M[:3, :3].reshape(3, 1, 3, 1)), X),
    (lambda x: x + 0.3 * M @ x, X), (lambda x: x + x, X),
    (lambda x: x + x.sum() + 1, X), (lambda x: 2 * x - x.mean(), X),
    (lambda x: jnp.cumsum(x), X), (lambda x: jax.lax.cumsum(x, reverse=True), X),
    (jnp.cumprod, P), (lambda x: jax.lax.cumprod(x, reverse=True), P),
    (jax.lax.cumlogsumexp, X), (lambda x: jax.lax.cumlogsumexp(x, reverse=True), X),
    (lambda x: jnp.linalg.solve(M, x), X),
    (lambda x: jax.scipy.linalg.solve_triangular(M, x, lower=True), X),
    (lambda x: jax.scipy.linalg.solve_triangular(M, x, trans="T"), X),
    (lambda x: jax.scipy.linalg.solve_triangular(M, x, unit_diagonal=True), X),
    (lambda x: jnp.convolve(jnp.concatenate([x[-1:], x, x[:1]]),
                            jnp.array([0.2, 1.0, 0.3]), mode="valid"), X),
    (lambda x: jnp.exp(jnp.concatenate([x[-1:], x[:-1]]) * 0.5 + x), X),
]  # fmt: skip


@pytest.mark.parametrize(("f", "x"), ELEMENTWISE)
def test_elementwise_functions(f: Any, x: Any) -> None:
    check_log_det(f, x)


@pytest.mark.parametrize(("f", "x"), STRUCTURE)
def test_functions_that_move_elements(f: Any, x: Any) -> None:
    check_log_det(f, x)


@pytest.mark.parametrize(("f", "x"), LINEAR)
def test_linear_and_cumulative_functions(f: Any, x: Any) -> None:
    check_log_det(f, x)


def test_results_that_say_more_than_needed_are_consistent() -> None:
    check_round_trip(lambda x: TALL @ x, X)
    check_round_trip(lambda x: jnp.repeat(x, 2), X)
    check_round_trip(lambda x: jnp.broadcast_to(x, (3, 6)) * 2, X)
    check_round_trip(lambda x: jnp.pad(x, (2, 1)), X)
    check_round_trip(lambda x: jax.lax.pad(x, 0.0, [(1, 0, 2)]), X)
    check_round_trip(lambda x: jnp.concatenate([x[-1:], x, x[:1]]), X)
    with pytest.raises(untrace.InverseError, match="no determinant"):
        untrace.inverse_and_log_det(lambda x: jnp.pad(x, 1), X)(jnp.pad(X, 1))


def test_permutations_that_are_sorted_for() -> None:
    def argsorted(x: Any) -> Any:
        order = jnp.argsort(x)
        return jnp.sort(x), order

    check_round_trip(argsorted, X)
    check_round_trip(lambda x: jax.lax.sort([x, jnp.arange(6)], num_keys=1), X)
    check_round_trip(lambda x: jax.lax.top_k(x, 6), X)


@pytest.mark.parametrize("wrap", [jax.jit, lambda f: f])
def test_permutations_may_be_arguments(wrap: Any) -> None:
    rows = jnp.stack([X, 2 * X])
    order = jnp.asarray(ORDER)
    cases = [
        (lambda x, order: x[order], X),
        (lambda x, order: x[:, order] * 2, rows),
        (lambda x, order: x.T[order], rows),
        (lambda x, order: jnp.zeros(6).at[order].set(jnp.sinh(x)), X),
        (lambda x, order: x.at[:, order].set(jnp.exp(x)), rows),
    ]
    for f, x in cases:
        found, log_det = wrap(untrace.inverse_and_log_det(f, x, order, argnums=0))(
            f(x, order), order
        )
        np.testing.assert_allclose(found, x, rtol=1e-4, atol=1e-5)
        wanted = true_log_det(lambda x, f=f: f(x, order), x)
        np.testing.assert_allclose(log_det, wanted, rtol=1e-4, atol=1e-4)
    with pytest.raises(untrace.InverseError, match="indices are not constants"):
        f = lambda x, order: x[order]
        jax.jit(untrace.inverse(f, X, order[:4], argnums=0))(X[:4], order[:4])


def test_products_at_indices_that_repeat_or_are_dropped() -> None:
    def f(x: Any) -> Any:
        return x.at[jnp.array([0, 0, 2, 99])].multiply(jnp.array([2.0, 3, 4, 5]))

    found, log_det = untrace.inverse_and_log_det(f)(f(X))
    np.testing.assert_allclose(found, X, rtol=1e-5)
    np.testing.assert_allclose(log_det, -np.log(24.0), rtol=1e-5)
    with pytest.raises(untrace.InverseError, match="1 of 2 factors are zero"):
        untrace.inverse(lambda x: x.at[jnp.arange(2)].multiply(jnp.arange(2.0)))(X)


def test_padding_is_found_beside_what_is_padded() -> None:
    def f(x: Any, padding: Any) -> Any:
        return jnp.pad(x, (1, 2), constant_values=padding)

    x, padding = untrace.inverse(f, X, 0.0)(f(X, 5.0))
    np.testing.assert_array_equal(x, X)
    assert padding == 5
    untrace.inverse(f, X, 0.0, argnums=0)(f(X, 5.0), 5.0)
    with pytest.raises(untrace.InverseError, match="instead of"):
        untrace.inverse(f, X, 0.0, argnums=0)(f(X, 5.0), 6.0)


def test_branches_for_platforms_are_one_function() -> None:
    def f(x: Any) -> Any:
        matrix = x.reshape(2, 2)
        diagonal = jnp.exp(jnp.diagonal(matrix))
        return jnp.where(jnp.eye(2, dtype=bool), diagonal, matrix)

    check_log_det(f, X[:4])


def test_results_that_contradict_each_other_are_found() -> None:
    def f(x: Any) -> Any:
        return x, 2 * x

    assert untrace.inverse(f, 1.0)(1.0, 2.0) == 1
    with pytest.raises(
        untrace.InverseError, match=r"result 1: \[2.\] instead of \[3.\]"
    ):
        untrace.inverse(f, 1.0)(1.0, 3.0)
    assert untrace.inverse(f, 1.0, check=False)(1.0, 3.0) == 1
    assert jax.jit(untrace.inverse(f, 1.0))(1.0, 3.0) == 1  # values are not known
    with pytest.raises(untrace.InverseError, match="contradict"):
        untrace.inverse(jnp.fft.rfft, X)(jnp.fft.rfft(X) + 1j)
    nan = jnp.full(6, jnp.nan)
    assert jnp.isnan(untrace.inverse(f, X)(nan, nan)).all()


def test_factors_of_matrices_are_not_compared() -> None:
    """Eigenvectors of one eigenvalue can be turned, columns have another sign."""
    turned = jnp.array([[0.6, -0.8], [0.8, 0.6]])
    factors = jnp.linalg.eigh(jnp.eye(2))._replace(eigenvectors=turned)
    found = untrace.inverse(jnp.linalg.eigh, jnp.eye(2))(factors)
    np.testing.assert_allclose(found, jnp.eye(2), atol=1e-6)
    factors = jax.tree.map(jnp.negative, jnp.linalg.qr(M))
    np.testing.assert_allclose(untrace.inverse(jnp.linalg.qr, M)(factors), M, atol=1e-5)
    with pytest.raises(untrace.InverseError, match="QRResult"):
        untrace.inverse(jnp.linalg.qr, M)(tuple(factors))


def test_complex_numbers() -> None:
    z = X[:3] + 1j * X[3:]
    check_round_trip(lambda a: jax.lax.complex(a["r"], a["i"]), {"r": X, "i": P})
    check_round_trip(lambda z: (z.real, z.imag), z)
    check_round_trip(lambda z: jnp.conj(z) * (2 + 1j), z)
    check_round_trip(jnp.fft.fft, z)
    check_round_trip(lambda x: jnp.fft.ifft(x.reshape(1, 3)), z)
    check_round_trip(jnp.fft.rfft, X)
    with pytest.raises(untrace.InverseError, match="principal"):
        untrace.inverse(jnp.exp)(z)

    def as_real(f: Any) -> Any:
        def real(x: Any) -> Any:
            made = f(x[:3] + 1j * x[3:])
            return jnp.concatenate([made.real, made.imag])

        return real

    for f in (lambda z: z * (2 + 1j), lambda z: z**-1, jnp.fft.fft, jnp.fft.ifft):
        log_det = untrace.inverse_and_log_det(f, z)(f(z))[1]
        matrix = jax.jacobian(as_real(f))(X)
        wanted = -jnp.linalg.slogdet(matrix)[1]
        np.testing.assert_allclose(log_det, wanted, rtol=1e-4, atol=1e-4)
    check_round_trip(lambda z: M[:3, :3] @ z, z)
    with pytest.raises(untrace.InverseError, match="principal"):
        untrace.inverse(lambda z: z**3)(z)
    check_round_trip(lambda z: z**3, jnp.exp(0.3j * X), principal=True)


def test_types_that_lose_nothing() -> None:
    check_round_trip(lambda x: x.astype(jnp.float32) * 2, X.astype(jnp.bfloat16))
    check_round_trip(lambda x: jax.lax.bitcast_convert_type(x, jnp.int32) ^ 7, X)
    check_round_trip(lambda x: x.view(jnp.uint8), X)
    check_round_trip(lambda x: ~(3 - x) ^ 5, jnp.arange(6))
    key = jax.random.key(3)
    found = untrace.inverse(jax.random.key_data, key)(jax.random.key_data(key))
    assert (jax.random.key_data(found) == jax.random.key_data(key)).all()
    with pytest.raises(untrace.InverseError, match="does not hold"):
        untrace.inverse(lambda x: x.astype(jnp.int32), X)(jnp.arange(6))


def test_factorizations_are_multiplied_out() -> None:
    a = M[:4, :4]
    symmetric = a @ a.T + jnp.eye(4)
    for f in (jnp.linalg.qr, jnp.linalg.svd, jax.lax.linalg.lu):
        check_round_trip(f, a, atol=1e-3)
    check_round_trip(jnp.linalg.cholesky, symmetric, atol=1e-3)
    check_round_trip(
        lambda a: jax.lax.linalg.cholesky(a, symmetrize_input=False), symmetric
    )
    check_round_trip(jnp.linalg.eigh, symmetric, atol=1e-3)
    check_round_trip(jnp.linalg.inv, symmetric, atol=1e-3)
    check_round_trip(
        lambda a: jax.lax.linalg.eigh(a, symmetrize_input=False), symmetric, atol=1e-3
    )
    check_round_trip(
        lambda b: jax.lax.linalg.tridiagonal_solve(
            jnp.array([0.0, 1, 2]), jnp.array([4.0, 5, 6]), jnp.array([1.0, 2, 0]), b
        ),
        X.reshape(3, 2),
    )


@pytest.mark.parametrize("layout", [("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")])
def test_convolutions_with_one_pixel(layout: Any) -> None:
    kernel = M[:2, :2] + 2 * jnp.eye(2)
    shape, k_shape = ((1, 3, 3, 2), (1, 1, 2, 2))
    if layout[0] == "NCHW":
        shape, k_shape = (1, 2, 3, 3), (2, 2, 1, 1)

    def f(x: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x,
            kernel.reshape(k_shape).astype(x.dtype),
            (1, 1),
            "SAME",
            dimension_numbers=layout,
        )

    check_log_det(f, jax.random.normal(jax.random.key(3), shape))


def test_periodic_convolution_is_a_linear_system() -> None:
    kernel = jnp.array([[0.1, 0.2, 0.1], [0.0, 1.0, 0.3], [0.1, 0.1, 0.0]])

    def f(x: Any) -> Any:
        wide = jnp.pad(x, 1, mode="wrap")[None, :, :, None]
        made = jax.lax.conv_general_dilated(
            wide, kernel[:, :, None, None].astype(x.dtype), (1, 1), "VALID",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )  # fmt: skip
        return jnp.tanh(made[0, :, :, 0])

    check_log_det(f, jax.random.normal(jax.random.key(4), (4, 4)) * 0.3)


@pytest.mark.parametrize("norm", [None, "ortho"])
def test_cosine_transforms_are_linear_systems(norm: str | None) -> None:
    check_log_det(lambda x: jnp.exp(jax.scipy.fft.dct(x, norm=norm)), X)
    with pytest.raises(untrace.InverseError, match="information lost"):
        untrace.inverse(lambda x: jnp.fft.fft(x).real, X)(X)


def test_systems_of_complex_numbers() -> None:
    z = X[:3] + 1j * X[3:]

    def f(z: Any) -> Any:
        return z + 0.3j * M[:3, :3] @ jnp.conj(z)

    def real(x: Any) -> Any:
        made = f(x[:3] + 1j * x[3:])
        return jnp.concatenate([made.real, made.imag])

    check_round_trip(f, z)
    log_det = untrace.inverse_and_log_det(f, z)(f(z))[1]
    wanted = -jnp.linalg.slogdet(jax.jacobian(real)(X))[1]
    np.testing.assert_allclose(log_det, wanted, rtol=1e-4, atol=1e-4)


BELOW = jnp.tril_indices(3, -1)


def by_sum(x: Any) -> Any:
    below = jnp.zeros((3, 3), x.dtype).at[BELOW].add(x[:3])
    return below + jax.nn.softplus(x[3:])[:, None] * jnp.eye(3, dtype=x.dtype)


def by_update(x: Any) -> Any:
    diagonal = jnp.arange(3)
    below = jnp.zeros((3, 3), x.dtype).at[BELOW].set(x[:3])
    return below.at[diagonal, diagonal].add(1) * jnp.exp(x[3:])[:, None]


def by_columns(x: Any) -> Any:
    below = jnp.zeros((3, 3), x.dtype).at[BELOW].add(jnp.tanh(x[:3]))
    return below + jnp.eye(3, dtype=x.dtype) * (2 * x[3:])


@pytest.mark.parametrize("f", [by_sum, by_update, by_columns])
def test_a_triangle_and_a_diagonal_are_told_apart(f: Any) -> None:
    check_round_trip(f, X)
    check_log_det(lambda x: f(x)[jnp.tril_indices(3)], X)
    src = untrace.source(untrace.inverse(f, X))(f(X))
    assert src.report.strength in ("identical", "equivalent")
    np.testing.assert_allclose(src.load()(f(X)), X, rtol=1e-4, atol=1e-5)


def test_singular_systems_are_found_before_values_are_known() -> None:
    def f(x: Any, scale: Any) -> Any:
        return scale * (x - x.mean())

    with pytest.raises(untrace.InverseError, match="rank 5"):
        jax.jit(untrace.inverse(f, argnums=0))(X, 2.0)


def test_log_det_that_is_not_cheap_says_what_to_do() -> None:
    with pytest.raises(untrace.InverseError, match="no cheap formula.*jacobian"):
        f = lambda a: jax.lax.linalg.cholesky(a, symmetrize_input=False)
        untrace.inverse_and_log_det(f)(jnp.eye(3))


# ---- what is cut off ---------------------------------------------------------------


def limits(x: Any) -> tuple[float, float]:
    """Return the unit of the last place of 1, and the least number of a type."""
    found = jnp.finfo(x.dtype)
    return float(found.eps), float(found.tiny)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: jnp.clip(jax.nn.sigmoid(x), limits(x)[1], 1 - limits(x)[0]),
        lambda x: jax.lax.clamp(limits(x)[0] - 1, jnp.tanh(x), 1 - limits(x)[0]),
        lambda x: jnp.maximum(jnp.exp(x), limits(x)[1]),
    ],
)
def test_clips_that_cut_off_rounding_alone_are_inverted(f: Any) -> None:
    check_log_det(f, vector())
    assert np.isfinite(untrace.inverse(f)(f(jnp.array([-50.0, 50.0])))).all()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: jnp.clip(jax.nn.sigmoid(x), 0.1, 1.0),
        lambda x: jnp.maximum(jnp.exp(x), 1e-6),
        lambda x: jnp.minimum(jnp.tanh(x), 0.999),
        lambda x: jnp.clip(x, -1e9, 1e9),
    ],
)
def test_other_clips_need_the_principal_branch(f: Any) -> None:
    with pytest.raises(untrace.InverseError, match="principal=True"):
        untrace.inverse(f)(f(vector()))
    check_round_trip(f, vector(), principal=True)
