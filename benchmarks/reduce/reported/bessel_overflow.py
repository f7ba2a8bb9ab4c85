"""A Bessel function overflows in float64 where its value can be represented.

https://github.com/jax-ml/jax/issues/39771
"""

import jax
import jax.numpy as jnp
from jax.scipy.special import i0

jax.config.update("jax_enable_x64", True)

CALL = "window(signal, shape)"


def kaiser(n, shape):
    offsets = (jnp.arange(n) - (n - 1) / 2) / ((n - 1) / 2)
    return i0(shape * jnp.sqrt(1.0 - offsets**2)) / 1e300


def window(signal, shape):
    tapered = signal * kaiser(signal.size, shape)
    spectrum = jnp.fft.rfft(tapered)
    power = jnp.abs(spectrum) ** 2
    centroid = jnp.sum(power * jnp.arange(power.size)) / jnp.sum(power)
    return tapered, centroid


signal = jnp.sin(jnp.linspace(0.0, 30.0, 65))
shape = jnp.float64(713.0)
