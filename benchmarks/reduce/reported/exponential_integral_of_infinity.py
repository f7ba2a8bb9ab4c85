"""The exponential integral is NaN at infinity instead of 0.

https://github.com/jax-ml/jax/issues/38519
"""

import jax.numpy as jnp
from jax.scipy.special import exp1

CALL = "drawdown(distances, times, aquifer)"


def drawdown(distances, times, aquifer):
    diffusivity = aquifer["transmissivity"] / aquifer["storage"]
    arguments = distances[:, None] ** 2 / (4.0 * diffusivity * times[None, :])
    well = exp1(arguments)
    heads = aquifer["rate"] * well / (4.0 * jnp.pi * aquifer["transmissivity"])
    return heads, jnp.max(heads, axis=0) - jnp.min(heads, axis=0)


distances = jnp.array([1.0, 10.0, 50.0])
times = jnp.array([0.0, 0.5, 1.0, 4.0])
aquifer = {
    "transmissivity": jnp.float32(12.0),
    "storage": jnp.float32(0.003),
    "rate": jnp.float32(40.0),
}
