"""float32 loses all digits of a variance: the mean of squares less the square of a mean.

With activations around 2,000 that vary by 0.5, squares are around 4,000,000, where
float32 has a resolution of 0.25, and the variance is 0.25. In float64 it is right. The last norm of
the model below computes its variance in one pass, after a shift has moved the mean.
Like https://github.com/google/flax/issues/1491. All versions.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.reduce import programs

ORIGIN = "https://github.com/google/flax/issues/1491"
KEEP = "differs(a='jit', b='float64', rtol=1e-2)"
VERSIONS = ("0.10", "0.12")
MINIMAL = 2


def one_pass_norm(x, gain, shift):
    mean = x.mean(-1, keepdims=True)
    variance = (x * x).mean(-1, keepdims=True) - mean * mean
    return (x - mean) * jax.lax.rsqrt(jnp.maximum(variance, 1e-3)) * gain + shift


PROGRAM = jax.value_and_grad(
    partial(programs.transformer_loss, final_norm=one_pass_norm)
)


def arguments():
    params = programs.transformer_params(layers=2)
    params["blocks"][1]["mlp"]["down_bias"] += 2000.0
    return params, programs.tokens()


def minimal(squares, rest):
    return squares.sum() - rest  # a product instead of the sum would be contracted


def minimal_arguments():
    return np.array([4_000_001.25, 1.1], np.float32), np.float32(4_000_002)
