"""The beta function is NaN at negative integers, where it is finite.

https://github.com/jax-ml/jax/issues/38270
"""

import jax.numpy as jnp
from jax.scipy import special

CALL = "overlap(coefficients, positions)"


def basis(positions, order):
    powers = positions[:, None] ** jnp.arange(order)
    return powers / jnp.linalg.norm(powers, axis=0, keepdims=True)


def moment_matrix(order):
    rows = jnp.arange(order, dtype=jnp.float32)[:, None]
    columns = jnp.arange(order, dtype=jnp.float32)[None, :]
    return special.beta(rows - 2.0, columns + 1.0) * jnp.exp(-0.1 * (rows + columns))


def overlap(coefficients, positions):
    order = coefficients.shape[0]
    values = basis(positions, order) @ coefficients
    moments = moment_matrix(order)
    energy = coefficients @ moments @ coefficients
    return jnp.sum(jnp.sin(values) ** 2) / positions.size + energy


coefficients = jnp.array([0.5, -0.2, 0.1, 0.7])
positions = jnp.linspace(0.1, 1.0, 12)
