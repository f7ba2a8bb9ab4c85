"""Multiplying and summing arrays of rank 7 ends in SIGSEGV when it runs.

XLA:CPU hands a float32 product and sum to YNNPACK, whose pipeline (slinky) crashes for
rank 7 if an axis that is not summed has size 1. Lower ranks, float64 and small sizes are
fine. The gyrokinetic moments below have rank 7 only in a diagnostic
that follows the integration.
Reported as https://github.com/jax-ml/jax/issues/40412 (a relation of
https://github.com/jax-ml/jax/issues/39257). 0.10.2; not in 0.12.
"""

from functools import partial

import jax.numpy as jnp
import numpy as np

from benchmarks.reduce import programs

ORIGIN = "https://github.com/jax-ml/jax/issues/40412"
KEEP = "crashes(signal='SIGSEGV')"
VERSIONS = ("0.10",)
MINIMAL = 2

SHAPE = (3, 1, 2, 2, 8, 8, 8)  # species, 1, Laguerre, Hermite, kx, ky, z


def streaming(p, time, y):
    """Stream along the field line, drift across it, and damp."""
    moments = y.reshape(6, 2, 8, 8, 8)
    along = jnp.roll(moments, 1, -1) - jnp.roll(moments, -1, -1)
    across = jnp.roll(moments, 1, -2) - 2.0 * moments + jnp.roll(moments, -1, -2)
    mixed = jnp.flip(along, 1) * p["speed"] + p["drift"] * jnp.sin(time) * across
    return (mixed - p["damping"] * moments).reshape(y.shape)


def program(p, y, bessel):
    time, y, steps = programs.solve_adaptively(
        partial(streaming, p), y, jnp.float32(0.3)
    )
    # Two conserved quantities before the average over the gyration.
    mass = y.reshape(6, -1).sum(-1)
    energy = (y.reshape(6, -1) ** 2).sum(-1)
    averaged = (y.reshape(SHAPE) * bessel).sum(3)
    later, y, more = programs.solve_adaptively(
        partial(streaming, p), y, jnp.float32(0.2)
    )
    return time + later, y, steps + more, mass, energy, averaged


PROGRAM = program


def arguments():
    rng = np.random.default_rng(0)
    p = {"speed": 0.3, "drift": 0.2, "damping": 0.1}
    p = {name: np.float32(value) for name, value in p.items()}
    y = rng.normal(size=np.prod(SHAPE)).astype(np.float32)
    return p, y, rng.normal(size=SHAPE).astype(np.float32)


def minimal(a, b):
    return (a * b).sum(3)


def minimal_arguments():
    return np.ones(SHAPE, np.float32), np.ones(SHAPE, np.float32)
