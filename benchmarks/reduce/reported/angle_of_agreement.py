"""Compiled, the angle of two zeros that a comparison made is NaN.

https://github.com/openxla/xla/issues/44705
"""

import jax.numpy as jnp

CALL = "headings(counts, readings)"


def headings(counts, readings):
    first = counts != 0
    second = counts != 0
    apart = jnp.logical_xor(first, second).astype(jnp.float32)
    angle = jnp.arctan2(apart, apart)
    smoothed = jnp.cumsum(readings) / (1.0 + jnp.arange(readings.size))
    centred = smoothed - jnp.mean(smoothed)
    return jnp.cos(angle) * centred, jnp.max(jnp.abs(centred))


counts = jnp.arange(5)
readings = jnp.array([0.5, -1.0, 2.0, 0.25, 1.5])
