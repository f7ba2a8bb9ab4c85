"""A loop does not end for one parameter: Newton's method runs in a cycle.

For x**3 - 2 x + p with p = 2, the iteration that starts at 0 alternates between 0 and 1
for ever; for other parameters it converges. Below, every rate of a chemical system is
corrected by the root of such an equation of state, one per cell, and in one cell p is 2.
A textbook failure; the loop has no bound on its steps. All versions.
"""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.reduce import programs

ORIGIN = "planted"
KEEP = "hangs(10)"
VERSIONS = ("0.10", "0.12")
MINIMAL = 2


def equation_of_state(pressure):
    """Find a root of x**3 - 2 x + pressure, one per cell."""

    def value(x):
        return x**3 - 2.0 * x + pressure

    def newton(x):
        return x - value(x) / (3.0 * x**2 - 2.0)

    def unfinished(x):
        return (jnp.abs(value(x)) > 1e-5).any()

    return jax.lax.while_loop(unfinished, newton, jnp.zeros_like(pressure))


def program(p, pressure, y):
    def field(time, y):
        return programs.brusselator(p, time, y)

    time, y, steps = programs.solve_adaptively(field, y, jnp.float32(0.4))
    volume = equation_of_state(pressure)
    scaled = y * (1.0 + 0.01 * volume)
    more, y, others = programs.solve_adaptively(field, scaled, jnp.float32(0.2))
    return time + more, y, steps + others


PROGRAM = program


def arguments():
    p, y = programs.chemistry(cells=6)
    pressure = np.array([3.0, 2.5, 4.0, 2.0, 5.0, 3.5], np.float32)
    return p, pressure, y


def minimal(running, x):
    return jax.lax.while_loop(
        lambda carry: carry[0], lambda carry: (carry[0], carry[1] + 1.0), (running, x)
    )[1]


def minimal_arguments():
    return np.bool_(True), np.float32(0)
