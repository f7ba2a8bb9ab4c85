"""Compiled, the absolute value of a square is left out, which may have wrapped around.

https://github.com/tensorflow/tensorflow/issues/117142 (of XLA)
"""

import jax.numpy as jnp

CALL = "levels(samples, window)"


def levels(samples, window):
    power = samples * samples
    power = jnp.where(power < 0, jnp.abs(power), power)
    total = jnp.cumsum(power.astype(jnp.int32))
    shaped = jnp.sqrt(total / (1.0 + jnp.arange(samples.size)))
    return power, jnp.convolve(shaped, window, mode="same")


samples = jnp.array([12, 7, 20, 15, 11, 3], jnp.int8)
window = jnp.array([0.25, 0.5, 0.25])
