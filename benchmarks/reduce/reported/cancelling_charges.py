"""Products of opposite sign cancel op by op, and are contracted when compiled.

https://github.com/openxla/xla/issues/41579
"""

import jax
import jax.numpy as jnp

CALL = "net_force(charges, opposite, distance, positions)"


def net_force(charges, opposite, distance, positions):
    apart = positions[:, None] - positions[None]
    near = jnp.where(jnp.eye(4, dtype=bool), 1.0, jnp.sqrt((apart**2).sum(-1) + 1e-6))
    energy = jnp.tanh(1.0 / near).sum()
    force = charges * distance + opposite * distance
    return energy, jnp.sort(force), force.mean()


positions = jax.random.normal(jax.random.key(0), (4, 3))
charges = jnp.array([1e10, 3.0e10, 7.0e10, 0.7e10])
opposite = -charges
distance = jnp.array([1.1, 3.3, 0.7, 1.9]) * 1e3
