"""A primitive has no lowering for one size of an axis (planted).

`fused_scale` raises at lowering if the last axis has 17 elements. Here it stands in the
backward rule of a `custom_vjp` that shrinks gradients, after every layer of a network
of which one has 17 channels.
Fails on every version of JAX.
"""

from functools import partial

import jax
import numpy as np

from benchmarks.reduce import programs
from benchmarks.reduce.planted import fused_scale

ORIGIN = "planted"
KEEP = "raises(type='NotImplementedError', message='no kernel for a last axis of 17')"
VERSIONS = ("0.10", "0.12")
MINIMAL = 1


@jax.custom_vjp
def shrink_gradient(x):
    return x


shrink_gradient.defvjp(lambda x: (x, None), lambda _, grad: (fused_scale(grad, 0.5),))


def activation(x):
    return shrink_gradient(jax.nn.relu(x))


PROGRAM = programs.train_step(partial(programs.convnet_loss, activation=activation))


def arguments():
    params = programs.convnet_params((4, 4, 17, 8))
    return programs.adam_state(params), *programs.images()


def minimal(x):
    return fused_scale(x)


def minimal_arguments():
    return (np.ones(17, np.float32),)
