"""Compiling takes seconds: XLA sorts a constant with its interpreter.

The constant folder evaluates instructions on constants one element at a time, and a sort
calls its comparator through the interpreter: about 0.1 ms per element. The array has to
be made inside (as an argument it is no constant), and in steps: XLA knows that sorting a
broadcast number changes nothing. Below, the features of a graph are replaced by their
rank among sorted thresholds.
Like https://github.com/jax-ml/jax/issues/12789 and
https://github.com/jax-ml/jax/issues/21300. All versions.
"""

import jax
import jax.numpy as jnp

from benchmarks.reduce import programs

ORIGIN = "https://github.com/jax-ml/jax/issues/12789"
KEEP = "slow_compile(1.0)"
VERSIONS = ("0.10", "0.12")
MINIMAL = 3

LEVELS = 40_000


def ranked(x):
    """Map numbers to their rank among thresholds, of which the first is moved."""
    thresholds = jnp.full(LEVELS, 0.5).at[0].set(0.1)
    ranks = jnp.searchsorted(jnp.sort(thresholds), x.ravel())
    return ranks.reshape(x.shape) / LEVELS


def loss(params, data):
    features = data["features"] + ranked(data["features"])
    return programs.graph_loss(params, data | {"features": features})


PROGRAM = programs.train_step(loss)


def arguments():
    return programs.adam_state(programs.graph_params(layers=5)), programs.graph()


def minimal():
    first = jax.lax.broadcast(jnp.float32(1), (1,))
    return jax.lax.sort(jax.lax.pad(first, jnp.float32(0), [(0, LEVELS - 1, 0)]))


def minimal_arguments():
    return ()
