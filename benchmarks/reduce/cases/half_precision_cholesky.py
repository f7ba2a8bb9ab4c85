"""LAPACK has no half-precision kernels: lowering raises, though tracing did not.

Jax 0.10 traces a Cholesky decomposition in bfloat16 and raises NotImplementedError when
it is lowered for the CPU. (0.12 raises TypeError while tracing, so that there is no
program to reduce.) Below somebody cast the covariance of a mixed-precision filter.
Reported as https://github.com/jax-ml/jax/issues/38825. 0.10.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.reduce import programs

ORIGIN = "https://github.com/jax-ml/jax/issues/38825"
KEEP = "raises(type='NotImplementedError', message='Unsupported dtype bfloat16')"
VERSIONS = ("0.10",)
MINIMAL = 1


def solve_by_cholesky(matrix, right):
    factor = jax.lax.linalg.cholesky(
        matrix.astype(jnp.bfloat16), symmetrize_input=False
    ).astype(matrix.dtype)
    half = partial(jax.lax.linalg.triangular_solve, factor, left_side=True, lower=True)
    return half(half(right), transpose_a=True)


PROGRAM = jax.value_and_grad(
    partial(programs.kalman_log_likelihood, solve=solve_by_cholesky)
)


def arguments():
    return programs.tracking(steps=6)


def minimal(x):
    return jax.lax.linalg.cholesky_p.bind(x)


def minimal_arguments():
    return (np.eye(1, dtype=jnp.bfloat16),)
