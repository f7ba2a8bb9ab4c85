"""A primitive cannot be lowered within a checkpoint (planted).

`offload` raises at lowering if it stands in a function that is recomputed
(`jax.checkpoint`). The layers below are scanned over, each of them a checkpoint, and
trained. Needs the boundary; the scan and the gradient are not needed.
Fails on every version of JAX.
"""

from functools import partial

import jax
import numpy as np

from benchmarks.reduce import programs
from benchmarks.reduce.planted import offload

ORIGIN = "planted"
KEEP = "raises(type='RuntimeError', message='memory space is assigned twice')"
VERSIONS = ("0.10", "0.12")
MINIMAL = 2


def activation(x):
    return jax.nn.silu(offload(x))


PROGRAM = programs.train_step(
    partial(
        programs.scanned_transformer_loss,
        block=partial(programs.transformer_block, activation=activation),
    )
)


def arguments():
    return programs.adam_state(programs.transformer_params(2)), programs.tokens()


def minimal(x):
    return jax.checkpoint(offload)(x)


def minimal_arguments():
    return (np.float32(1),)
