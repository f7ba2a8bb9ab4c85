"""NaN under jit only: a contracted difference of squares is negative.

Compiled, `a * a - b * b` is a fused multiply-add that rounds one product only; where
both are equal, the result may be a small negative number instead of zero, and its root
NaN. Op by op the same program is finite. Below, samples are scaled by the eccentricity
of ellipses, of which one has equal axes.
Same cause as https://github.com/openxla/xla/issues/41579. All versions (with FMA).
"""

import jax.numpy as jnp
import numpy as np

from benchmarks.reduce import programs

ORIGIN = "https://github.com/openxla/xla/issues/41579"
KEEP = "nan(jit_only=True)"
VERSIONS = ("0.10", "0.12")
MINIMAL = 3


def program(key, position, x, y, group, major, minor):
    def log_density(q):
        return programs.hierarchical_log_density(q, x, y, group)

    positions, accepted = programs.hmc(log_density, key, position, samples=1)
    eccentricity = jnp.sqrt(major * major - minor * minor) / major
    summary = (positions["offset"] * eccentricity).mean(0)
    return positions, accepted, summary


PROGRAM = program


def arguments():
    major = np.array([1.7, 1.6, 2.1], np.float32)
    minor = np.array([1.1, 1.6, 0.4], np.float32)
    key = np.array([0, 42], np.uint32)
    return key, *programs.survey(), major, minor


def minimal(a, square):
    return jnp.sqrt(a * a - square)


def minimal_arguments():
    a = np.float32(1.6)
    return a, a * a
