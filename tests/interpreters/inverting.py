"""Checks of inverses that several files use."""

from __future__ import annotations

from typing import Any

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np

import untrace


def vector(n: int = 6, seed: int = 0, scale: float = 1.0) -> Any:
    """Return numbers around zero."""
    return scale * jax.random.normal(jax.random.key(seed), (n,))


def check_round_trip(
    f: Any, x: Any, atol: float = 1e-4, wanted: Any = None, **options: Any
) -> None:
    """Invert a function of one argument, by its values."""
    found = untrace.inverse(f, x, **options)(f(x))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=atol),
        found,
        x if wanted is None else wanted,
    )


def true_log_det(f: Any, x: Any) -> Any:
    """Return log |det dx/dy| by differentiating."""
    flat, unravel = jax.flatten_util.ravel_pytree(x)
    matrix = jax.jacfwd(lambda v: jax.flatten_util.ravel_pytree(f(unravel(v)))[0])(flat)
    return -jnp.linalg.slogdet(matrix)[1]


def check_log_det(f: Any, x: Any, atol: float = 1e-4, **options: Any) -> None:
    """Invert a function of one argument, and compare log |det| with the true one.

    The true one is that of the Jacobian in 64 bits, where both have to agree to 1e-8; in 32
    bits to 1e-4, relative to numbers beyond 1.

    Args:
      f: Computes in the precision of its argument.
      x: Its argument, in 32 bits.
      atol: For the argument that is found in 32 bits.
      **options: Of the inverse.
    """
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda leaf: leaf.astype(_wide(leaf.dtype)), x)
        wanted = true_log_det(f, wide)
        inverted = untrace.inverse_and_log_det(f, wide, **options)
        found, log_det = inverted(f(wide))
        _close(found, wide, 1e-8)
        _close(log_det, wanted, 1e-8)
    found, log_det = untrace.inverse_and_log_det(f, x, **options)(f(x))
    _close(found, x, atol)
    assert jnp.shape(log_det) == () and jnp.result_type(log_det) == jnp.float32
    _close(log_det, wanted, 1e-4)


def _wide(dtype: Any) -> Any:
    if not jnp.issubdtype(dtype, jnp.inexact):
        return dtype
    is_complex = jnp.issubdtype(dtype, jnp.complexfloating)
    return jnp.complex128 if is_complex else jnp.float64


def _close(found: Any, wanted: Any, tolerance: float) -> None:
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance),
        found,
        wanted,
    )
