"""A number overflows in float16 though what it measures is small.

The largest finite float16 is 65,504: squares of numbers above 255 are infinite. A
gradient's norm is computed below from gradients that were scaled for half precision;
the parameters that come out are finite, only the logged norm is not.
Like the examples of https://arxiv.org/abs/1710.03740 (why losses are scaled). All
versions.
"""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.reduce import programs

ORIGIN = "planted"
KEEP = "inf()"
VERSIONS = ("0.10", "0.12")
MINIMAL = 1

STEP = programs.train_step(programs.transformer_loss)


def program(state, ids):
    state, metrics = STEP(state, ids)
    scaled = jax.tree.map(lambda m: (m * 2.0**14).astype(jnp.float16), state["mean"])
    squares = [jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(scaled)]
    return state, metrics | {"half_norm": jnp.sqrt(sum(squares)) / 2.0**14}


PROGRAM = program


def arguments():
    return programs.adam_state(programs.transformer_params(2)), programs.tokens()


def minimal(x):
    return x * x


def minimal_arguments():
    return (np.float16(300),)
