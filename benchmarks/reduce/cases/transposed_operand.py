"""A primitive cannot be lowered next to another one (planted).

`fused_bias` raises at lowering if its operand is the result of a transposition. The
mixture of experts below uses it twice per layer: on activations, where it works, and on
transposed logits of the router, where it does not. Needs both equations.
Fails on every version of JAX.
"""

from functools import partial

import jax
import numpy as np

from benchmarks.reduce import programs
from benchmarks.reduce.planted import fused_bias

ORIGIN = "planted"
KEEP = "raises(type='ValueError', message='operand has layout', stage='lower')"
VERSIONS = ("0.10", "0.12")
MINIMAL = 2


def biased_gelu(x):
    return fused_bias(jax.nn.gelu(x), 0.01)


def biased_route(logits):
    """Prefer all experts a little, for the balance."""
    return programs.route(fused_bias(logits.T, 0.1).T)


PROGRAM = programs.train_step(
    partial(programs.moe_loss, router=biased_route, activation=biased_gelu)
)


def arguments():
    params = programs.moe_params(layers=2)
    x, target = programs.weights(6, 8), programs.weights(6, 8, seed=2)
    return programs.adam_state(params), x, target


def minimal(x):
    return fused_bias(x.T)


def minimal_arguments():
    return (np.ones((1, 2), np.float32),)
