"""The first modified Bessel function overflows where its value does not.

https://github.com/jax-ml/jax/issues/39772
"""

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)

from jax.scipy.special import i1  # noqa: E402

CALL = "field(radii, currents)"


def field(radii, currents):
    scaled = radii[:, None] * jnp.sqrt(jnp.abs(currents))[None, :]
    inside = i1(scaled)
    profile = inside / (1.0 + radii[:, None] ** 2)
    edges = jnp.diff(jnp.log(profile), axis=0)
    return inside, jnp.mean(edges, axis=0)


radii = jnp.array([10.0, 300.0, 713.0])
currents = jnp.array([0.25, 1.0])
