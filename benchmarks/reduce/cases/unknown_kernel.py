"""The compiler does not know a kernel that large arrays are lowered to (planted).

`tiled_softmax` is lowered to a custom call without an implementation if its operand has
4,096 or more elements: tracing and lowering succeed, and compilation raises. One of
three layers of a transformer uses it, with exactly 4,096 attention scores.
Fails on every version of JAX.
"""

from functools import partial

import jax.numpy as jnp
import numpy as np

from benchmarks.reduce import programs
from benchmarks.reduce.planted import tiled_softmax

ORIGIN = "planted"
KEEP = "raises(message='No FFI handler registered', stage='compile')"
VERSIONS = ("0.10", "0.12")
MINIMAL = 1


def full_attention(x, p, *, heads):
    batch, length, width = x.shape
    shape = (batch, length, heads, width // heads)
    query, key, value = ((x @ p[k]).reshape(shape) for k in ("query", "key", "value"))
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", tiled_softmax(scores), value)
    return mixed.reshape(x.shape) @ p["out"]


def block(i: int):
    if i == 1:
        return partial(programs.transformer_block, heads=4, attention=full_attention)
    return programs.transformer_block


PROGRAM = programs.train_step(partial(programs.transformer_loss, blocks=block))


def arguments():
    params = programs.transformer_params(layers=3)
    return programs.adam_state(params), programs.tokens(batch=4, length=17)


def minimal(x):
    return tiled_softmax(x)


def minimal_arguments():
    return (np.ones(4096, np.float32),)
