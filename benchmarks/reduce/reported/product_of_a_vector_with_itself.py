"""Compiled, the gradient through a cross product of a vector with itself is NaN.

https://github.com/jax-ml/jax/issues/38611
"""

import jax
import jax.numpy as jnp

CALL = "gradients(queries, keys, values)"


def model(queries, keys, values):
    weights = jax.nn.softmax(queries @ keys.T * queries.shape[-1] ** -0.5, axis=-1)
    mixed = weights @ values
    normal = jnp.cross(mixed, mixed)
    plane = normal / (jnp.linalg.norm(normal) + 1.0)
    metric = plane @ plane.T + jnp.eye(len(plane))
    factor = jnp.linalg.cholesky(metric)
    return jnp.sum(jnp.vecdot(factor, factor))


def gradients(queries, keys, values):
    return jax.grad(model, argnums=(0, 2))(queries, keys, values)


seeds = jax.random.split(jax.random.key(4), 3)
queries, keys, values = (jax.random.normal(seed, (16, 3)) for seed in seeds)
