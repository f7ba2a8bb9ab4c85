"""Compiled, the exponential of a value that is always NaN is an arbitrary number.

https://github.com/jax-ml/jax/issues/29537
"""

import jax.numpy as jnp
import numpy as np

CALL = "summary(samples, weights)"


def geometric_deviation(samples, ddof):
    logs = jnp.log(samples)
    n = np.float32(samples.shape[0])
    with np.errstate(invalid="ignore"):
        correction = (n - ddof) / (n - ddof)
    spread = jnp.std(logs, axis=0) * correction
    return jnp.exp(spread)


def summary(samples, weights):
    normalised = weights / jnp.sum(weights)
    means = jnp.exp(normalised @ jnp.log(samples))
    return means, geometric_deviation(samples, samples.shape[0])


samples = jnp.linspace(1.0, 4.0, 12).reshape(4, 3)
weights = jnp.array([1.0, 2.0, 2.0, 1.0])
