"""Not a failure: the smallest program with two primitives in it.

Somebody wants an example of a lowering of `top_k` together with `cumsum` from a mixture
of experts with limited capacity. All versions.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.reduce import programs

ORIGIN = "planted"
KEEP = "contains('top_k', 'cumsum')"
VERSIONS = ("0.10", "0.12")
MINIMAL = 2


def route_within_capacity(logits):
    """Drop tokens that come too late for an expert that is full."""
    gates = programs.route(logits)
    place = jnp.cumsum(gates > 0, axis=0)
    return jnp.where(place <= 3, gates, 0.0)


PROGRAM = programs.train_step(partial(programs.moe_loss, router=route_within_capacity))


def arguments():
    params = programs.moe_params(layers=2)
    x, target = programs.weights(6, 8), programs.weights(6, 8, seed=2)
    return programs.adam_state(params), x, target


def minimal(x):
    return jax.lax.top_k(x, 1), jax.lax.cumsum(x)


def minimal_arguments():
    return (np.ones(1, np.float32),)
