"""A primitive aborts the lowering of a while loop that holds it (planted).

`paged_copy` works anywhere but in the body of a while loop, where it ends the process
with SIGABRT. The solver below copies the state before its adaptive steps and after each
that it accepts. Needs the loop as a boundary: hoisted out of it, nothing fails.
Fails on every version of JAX.
"""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.reduce import programs
from benchmarks.reduce.planted import paged_copy

ORIGIN = "planted"
KEEP = "crashes(signal='SIGABRT', message='in_region')"
VERSIONS = ("0.10", "0.12")
MINIMAL = 2


def program(p, y):
    def field(time, y):
        return programs.brusselator(p, time, y)

    _, y, _ = programs.solve_adaptively(field, paged_copy(y), jnp.float32(0.2))
    return programs.solve_adaptively(field, y, jnp.float32(0.4), accept=paged_copy)


PROGRAM = program


def arguments():
    return programs.chemistry(cells=6)


def minimal(x):
    return jax.lax.while_loop(lambda x: False, paged_copy, x)


def minimal_arguments():
    return (np.float32(1),)
