"""Compiled and op-by-op results differ: XLA contracts `a * d - b * c`.

LLVM turns a product and a difference into a fused multiply-add, which does not round the
product; where both products nearly cancel, the result is another number. Of
the two trackers below one has sensors that measure nearly the same, and both invert a
2x2 covariance by Cramer's rule.
Reported as https://github.com/openxla/xla/issues/41579. All versions (CPUs with FMA).
"""

import jax.numpy as jnp
import numpy as np

from benchmarks.reduce import programs

ORIGIN = "https://github.com/openxla/xla/issues/41579"
KEEP = "differs(a='jit', b='eager', rtol=1e-3)"
VERSIONS = ("0.10", "0.12")
MINIMAL = 2


def solve_by_cramer(matrix, right):
    (a, b), (c, d) = matrix
    adjugate = jnp.stack([jnp.stack([d, -b]), jnp.stack([-c, a])])
    return adjugate @ right / (a * d - b * c)


def program(trackers, observed):
    return [
        programs.kalman_log_likelihood(params, observed, solve=solve_by_cramer)
        for params in trackers
    ]


PROGRAM = program


def arguments():
    good, observed = programs.tracking(steps=7)
    sensors = np.array([[1, 0.3, 0, 0], [1, 0.3003, 0, 0]], np.float32)
    error = np.float32(1e-6) * np.eye(2, dtype=np.float32)
    return (good, good | {"observe": sensors, "error": error}), observed


def minimal(a, d, product):
    return a * d - product


def minimal_arguments():
    return np.float32(1.1), np.float32(1.3), np.float32(1.4299998)
