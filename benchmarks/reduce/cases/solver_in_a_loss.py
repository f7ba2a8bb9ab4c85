"""A program runs, but its gradient does not trace: it holds a while loop.

Reverse-mode differentiation of `while_loop` raises a ValueError while grad is traced;
the forward program is fine. The filter below solves its linear systems by Jacobi's
iteration until convergence.
Reported as https://github.com/jax-ml/jax/issues/2956 and many times more. All versions.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.reduce import programs

ORIGIN = "https://github.com/jax-ml/jax/issues/2956"
KEEP = "raises(type='ValueError', message='Reverse-mode differentiation', under='grad')"
VERSIONS = ("0.10", "0.12")
MINIMAL = 2


def solve_iteratively(matrix, right):
    """Solve a system with a dominant diagonal by Jacobi's iteration."""
    diagonal = jnp.diagonal(matrix)[:, None]
    rest = matrix - jnp.diag(jnp.diagonal(matrix))

    def unfinished(carry):
        _, change, steps = carry
        return (change > 1e-6) & (steps < 20)

    def iterate(carry):
        x, _, steps = carry
        new = (right - rest @ x) / diagonal
        return new, jnp.abs(new - x).max(), steps + 1

    start = (right / diagonal, jnp.asarray(jnp.inf, right.dtype), 0)
    return jax.lax.while_loop(unfinished, iterate, start)[0]


PROGRAM = partial(programs.kalman_log_likelihood, solve=solve_iteratively)


def arguments():
    return programs.tracking(steps=10)


def minimal(x):
    return jax.lax.while_loop(lambda x: False, lambda x: x * 2.0, x)


def minimal_arguments():
    return (np.float32(1),)
