"""A gradient is NaN, though the function is finite: the norm of a zero vector.

Only the derivative fails, and only where all components are exactly zero. The filter
below weighs innovations by their norm; one row of observations is what was predicted,
as a dropped sensor repeats zeros.
Reported as https://github.com/jax-ml/jax/issues/3058 and many times more. All versions.
"""

from functools import partial

import jax.numpy as jnp
import numpy as np

from benchmarks.reduce import programs

ORIGIN = "https://github.com/jax-ml/jax/issues/3058"
KEEP = "nan(under='grad')"
VERSIONS = ("0.10", "0.12")
MINIMAL = 2


def robust(residual):
    """Shrink outliers."""
    return residual / (1.0 + jnp.sqrt((residual**2).sum()))


PROGRAM = partial(programs.kalman_log_likelihood, innovation=robust)


def arguments():
    params, observed = programs.tracking(steps=16)
    observed[0] = 0.0
    return params, observed


def minimal(x):
    return jnp.sqrt(x * x)


def minimal_arguments():
    return (np.float32(0),)
