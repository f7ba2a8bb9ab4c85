"""The gradient of the absolute value of an infinite complex number is NaN.

https://github.com/jax-ml/jax/issues/25681
"""

import jax
import jax.numpy as jnp

CALL = "gains(levels, leaks)"


def loudness(levels, leaks):
    amplitudes = jax.lax.complex(jnp.exp(levels), leaks)
    spectrum = jnp.abs(amplitudes)
    return jnp.sum(jnp.tanh(spectrum / 10.0) * jnp.linspace(0.5, 1.0, levels.size))


def gains(levels, leaks):
    value, slopes = jax.value_and_grad(loudness)(levels, leaks)
    return value, levels - 0.1 * slopes


levels = jnp.array([0.5, 90.0, -1.0])
leaks = jnp.array([0.3, 0.0, 1.2])
