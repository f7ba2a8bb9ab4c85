"""Compiled, a gradient is one where op by op the power of two overflows to zero.

https://github.com/jax-ml/jax/issues/38098
"""

import jax
import jax.numpy as jnp

CALL = "gain_gradient(levels, weights)"


def total_gain(levels, weights):
    smooth = jnp.convolve(levels, jnp.array([0.25, 0.5, 0.25]), mode="same")
    ripple = jnp.sum((smooth - levels) ** 2) / 100.0
    decoded = jnp.log2(jnp.exp2(levels))
    return jnp.sum(weights * decoded) + 1e-6 * ripple


def gain_gradient(levels, weights):
    return jax.grad(total_gain)(levels, weights)


levels = jnp.array([1.0, 20.0, 126.0, 127.5])
weights = jnp.array([0.5, 1.0, 2.0, 1.0])
