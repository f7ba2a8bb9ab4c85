"""The derivative of the inverse hyperbolic sine of a large number is zero.

https://github.com/jax-ml/jax/issues/40634
"""

import jax
import jax.numpy as jnp

CALL = "update(radii, directions)"


def score(radii, directions):
    product = jnp.exp(radii) * jnp.sum(directions, axis=-1)
    return jnp.sum(jnp.arcsinh(product))


def update(radii, directions):
    value, slopes = jax.value_and_grad(score)(radii, directions)
    return value, radii - 0.01 * slopes, slopes


radii = jnp.array([0.5, 50.0, 2.0])
directions = jnp.array([[0.6, 0.8], [1.0, 0.0], [0.0, 1.0]])
