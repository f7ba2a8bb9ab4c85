"""The upper incomplete gamma function is NaN for an infinite shape instead of 1.

https://github.com/jax-ml/jax/issues/38272
"""

import jax.numpy as jnp
from jax.scipy.special import gammaincc

CALL = "survival(rates, times, scale)"


def survival(rates, times, scale):
    shapes = jnp.exp(rates * scale)
    normalised = times[:, None] / (1.0 + jnp.mean(times))
    tails = gammaincc(shapes[None, :], normalised)
    weights = jnp.exp(-rates) / jnp.sum(jnp.exp(-rates))
    mixture = tails @ weights
    return mixture, jnp.trapezoid(mixture, times)


rates = jnp.array([0.1, 0.5, 1.5])
times = jnp.linspace(0.5, 5.0, 8)
scale = jnp.float32(60.0)
