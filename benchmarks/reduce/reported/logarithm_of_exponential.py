"""Compiled, the logarithm of an exponential hides that the exponential overflows.

https://github.com/jax-ml/jax/issues/38099
"""

import jax
import jax.numpy as jnp

CALL = "free_energy(energies, coupling, field)"


def free_energy(energies, coupling, field):
    pairs = energies @ coupling @ energies
    local = energies * field
    weights = jnp.exp(local - pairs / energies.size)
    potential = jnp.log(weights)
    barrier = jnp.tanh(potential / 50.0)
    return jnp.sum(barrier), potential


energies = jnp.array([0.5, 1.0, 1.5])
coupling = 0.1 * jax.random.normal(jax.random.key(2), (3, 3))
field = jnp.array([1.0, 2.0, 61.0])
