"""The incomplete beta function has no derivatives by its parameters.

https://github.com/jax-ml/jax/issues/38610
"""

import jax
import jax.numpy as jnp

CALL = "fit(shape, levels)"


def loss(shape, levels):
    a, b = jnp.exp(shape)
    probabilities = jax.scipy.special.betainc(a, b, levels)
    return jnp.mean((probabilities - jnp.linspace(0.1, 0.9, levels.size)) ** 2)


def fit(shape, levels):
    value, slope = jax.value_and_grad(loss)(shape, levels)
    return value, shape - 0.1 * slope


shape = jnp.array([0.1, 0.4])
levels = jnp.linspace(0.2, 0.8, 7)
