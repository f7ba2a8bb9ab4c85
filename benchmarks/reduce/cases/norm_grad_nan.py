"""The gradient of a distance is NaN where two points coincide.

The derivative of a square root at zero is infinite, and zero times infinity is NaN; the
loss itself is finite. Positions of a graph's nodes are learned here, and two of them,
joined by an edge, start at the same place.
Reported as https://github.com/jax-ml/jax/issues/3058 (works as intended, and one of the
most frequent questions). All versions.
"""

import jax.numpy as jnp
import numpy as np

from benchmarks.reduce import programs

ORIGIN = "https://github.com/jax-ml/jax/issues/3058"
KEEP = "nan()"
VERSIONS = ("0.10", "0.12")
MINIMAL = 2


def distance(apart):
    return jnp.sqrt((apart**2).sum(-1))


def loss(params, data):
    placed = data | {"positions": params["positions"]}
    return programs.graph_loss(params["network"], placed, distance=distance)


PROGRAM = programs.train_step(loss)


def arguments():
    data = programs.graph()
    positions = data["positions"].copy()
    positions[4] = positions[3]
    params = {"network": programs.graph_params(layers=4), "positions": positions}
    return programs.adam_state(params), data


def minimal(apart, length):
    return apart * (0.5 / length)


def minimal_arguments():
    return np.float32(0), np.float32(0)
