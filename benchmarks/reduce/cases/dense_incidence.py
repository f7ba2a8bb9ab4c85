"""A program needs a gigabyte where its inputs and outputs have a few hundred kilobytes.

Messages are summed by a matrix product with the incidence matrix f32[nodes, edges]
instead of a scatter, in one of the layers. XLA materialises the matrix, as operands of a
product are not fused into it.
A common mistake rather than a bug. All versions.
"""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.reduce import programs

ORIGIN = "planted"
KEEP = "memory(700_000_000)"
VERSIONS = ("0.10", "0.12")
MINIMAL = 2

NODES = 10_000


def degrees(receivers):
    """Count the edges that end in each node."""
    incidence = (receivers == jnp.arange(NODES)[:, None]).astype(jnp.float32)
    return incidence @ jnp.ones((2 * NODES, 2), jnp.float32)


def loss(params, data):
    scale = degrees(data["receivers"]).max(-1, keepdims=True)
    scaled = data | {"features": data["features"] / scale}
    return programs.graph_loss(params, scaled)


PROGRAM = programs.train_step(loss)


def arguments():
    params = programs.graph_params(layers=4, width=4)
    return programs.adam_state(params), programs.graph(NODES, width=4)


def minimal(x):
    incidence = jax.lax.broadcast(x, (2 * NODES, NODES))
    return incidence @ np.ones((NODES, 1), np.float32)


def minimal_arguments():
    return (np.float32(1),)
