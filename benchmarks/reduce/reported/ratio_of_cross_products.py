"""Compiled, the cross product of a vector with itself is exactly zero, op by op not.

https://github.com/jax-ml/jax/issues/38602
"""

import jax
import jax.numpy as jnp

CALL = "orientation(points, weights, t)"


def orientation(points, weights, t):
    center = (weights[:, None] * points).sum(0) / weights.sum()
    spread = jnp.sqrt(((points - center) ** 2).sum(-1))
    angles = jnp.arctan2(points[:, 1], points[:, 0]) / jnp.pi
    area = jnp.cross(t, t)
    return spread.mean() + angles.var(), area / area


points = jax.random.normal(jax.random.key(0), (7, 2))
weights = jnp.linspace(0.5, 1.5, 7)
t = jnp.array([[0.1, 0.9]])
