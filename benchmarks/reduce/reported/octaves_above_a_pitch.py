"""Compiled, the logarithm of an exponential, both to base two, does not overflow.

https://github.com/jax-ml/jax/issues/38100
"""

import jax.numpy as jnp

CALL = "transposed(pitches, steps)"


def frequency(octaves):
    return jnp.exp2(octaves)


def octaves(frequencies):
    return jnp.log2(frequencies)


def transposed(pitches, steps):
    raised = pitches + steps / 12.0
    heard = octaves(frequency(raised))
    cents = 1200.0 * (heard - raised)
    weights = jnp.exp(-jnp.abs(pitches) / 10.0)
    return heard, cents, jnp.sum(weights * jnp.cos(raised)) / jnp.sum(weights)


pitches = jnp.array([8.0, 126.5, 9.25])
steps = jnp.array([12.0, 24.0, -7.0])
