"""The logarithm of a probability below 1.2e-38 is minus infinity: it counts as zero.

https://github.com/jax-ml/jax/issues/37762
"""

import jax
import jax.numpy as jnp

CALL = "filtered(log_start, transitions, emissions)"


def filtered(start, transitions, emissions):
    def step(belief, emission):
        predicted = belief @ transitions
        joint = predicted * emission
        return joint, jnp.log(joint.sum())

    belief, evidence = jax.lax.scan(step, start, emissions)
    return jnp.log(belief), evidence


log_start = jnp.array([0.6, 0.3, 0.1])
transitions = jnp.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]])
emissions = jnp.full((20, 3), 0.013).at[:, 1].set(0.011)
