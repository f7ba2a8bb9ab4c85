"""Compiled, the difference of two equal squares is not zero.

https://github.com/jax-ml/jax/issues/26147
"""

import jax
import jax.numpy as jnp

CALL = "moved(positions, speeds, dt)"


def gained(before, after):
    return after**2 - before**2


def moved(positions, speeds, dt):
    def one(position, speed):
        after = position + speed * dt
        return gained(position, after), after

    gains, after = jax.vmap(one)(positions, speeds)
    mean = jnp.mean(after)
    spread = jnp.sqrt(jnp.mean((after - mean) ** 2))
    return gains, jnp.tanh(mean) * spread


positions = jnp.array([0.1, 0.7, 1.3, 2.1])
speeds = jnp.zeros(4)
dt = jnp.float32(0.01)
