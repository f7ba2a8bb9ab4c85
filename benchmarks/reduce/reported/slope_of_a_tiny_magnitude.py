"""Compiled, the gradient of the root of a square is finite where the square is zero.

https://github.com/jax-ml/jax/issues/38096
"""

import jax
import jax.numpy as jnp

CALL = "sensitivities(weights, signal)"


def magnitude(x):
    return jnp.sqrt(jnp.abs(jnp.square(x)))


def penalty(weights, signal):
    smoothed = jnp.convolve(signal, jnp.array([0.25, 0.5, 0.25]), mode="same")
    fit = jnp.mean((smoothed * weights - signal) ** 2)
    return fit + 0.1 * jnp.sum(magnitude(weights))


def sensitivities(weights, signal):
    value, slopes = jax.value_and_grad(penalty)(weights, signal)
    return value, slopes


weights = jnp.array([0.5, 1.1754944e-38, -1.5, 0.25])
signal = jnp.array([1.0, 2.0, 0.5, -1.0])
