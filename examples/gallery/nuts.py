"""A step of the No-U-Turn sampler of blackjax."""

import blackjax
import jax
import jax.numpy as jnp


def log_density(position):
    a, b = position["a"], position["b"]
    return -0.5 * a**2 - jnp.sum(jnp.square(b - a**2))


sampler = blackjax.nuts(log_density, step_size=0.1, inverse_mass_matrix=jnp.ones(4))
key = jax.random.key(0)
state = sampler.init({"a": jnp.array(0.3), "b": jnp.full(3, 0.2)})
