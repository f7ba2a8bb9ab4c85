"""A fused activation aborts the process while it is lowered (planted).

`fast_gelu` checks that a bfloat16 array has a multiple of 8 lanes. The mixed-precision
step below uses it in the third of four layers, which alone is 36 wide instead of 32.
Needs its dtype and the size of its last axis; shape and values are free otherwise.
Fails on every version of JAX.
"""

from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import Array

from benchmarks.reduce import programs
from benchmarks.reduce.planted import fast_gelu

ORIGIN = "planted"
KEEP = "crashes(signal='SIGABRT', message='lanes % 8 == 0')"
VERSIONS = ("0.10", "0.12")
MINIMAL = 1


def gelu_in_half_precision(x: Array) -> Array:
    return fast_gelu(x.astype(jnp.bfloat16)).astype(jnp.float32)


def block(i: int):
    if i == 2:
        return partial(programs.transformer_block, activation=gelu_in_half_precision)
    return programs.transformer_block


PROGRAM = programs.train_step(partial(programs.transformer_loss, blocks=block))


def arguments():
    params = programs.transformer_params(layers=4)
    params["blocks"][2] = programs.block_params(16, hidden=36, seed=20)
    return programs.adam_state(params), programs.tokens()


def minimal(x):
    return fast_gelu(x)


def minimal_arguments():
    return (np.ones(1, jnp.bfloat16),)
