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
    """Invert a function of one argument, and compare log |det| with the true one."""
    found, log_det = untrace.inverse_and_log_det(f, x, **options)(f(x))
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), found, x
    )
    wanted = true_log_det(f, x)
    assert jnp.shape(log_det) == ()
    np.testing.assert_allclose(log_det, wanted, rtol=1e-4, atol=atol)
