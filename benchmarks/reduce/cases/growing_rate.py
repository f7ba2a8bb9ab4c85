"""A check on the host raises in the middle of a loop (planted).

`checked_rate` is a host callback that raises ValueError if a value exceeds 1,000. It
stands in the body of a scan over time steps, and the population that it watches grows
past the limit after some twenty of them. Needs the value, which no input has.
Fails on every version of JAX.
"""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.reduce import programs
from benchmarks.reduce.planted import checked_rate

ORIGIN = "planted"
KEEP = "raises(message='exceeds the limit of 1000', stage='run')"
VERSIONS = ("0.10", "0.12")
MINIMAL = 1


def program(p, y, population):
    def field(time, y):
        return programs.brusselator(p, time, y)

    def advance(carry, time):
        y, population = carry
        for part in range(2):
            y, error = programs.dopri_step(field, time + 0.01 * part, y, 0.01)
        growth = 0.35 + 0.01 * jnp.abs(error).max()
        population = checked_rate(population * (1.0 + growth))
        return (y, population), (y.mean(), population)

    times = jnp.linspace(0.0, 0.5, 40)
    return jax.lax.scan(advance, (y, population), times)


PROGRAM = program


def arguments():
    p, y = programs.chemistry(cells=6)
    return p, y, np.array([1.0, 2.0, 0.5], np.float32)


def minimal(x):
    return checked_rate(x)


def minimal_arguments():
    return (np.float32(2000),)
