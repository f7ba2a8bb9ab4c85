"""Two installations of JAX give different numbers: one of them is wrong.

jaxlib 0.10.2 computes the last row of a fused matrix product, square and sum from
another row, if there are more than 32,768 rows. Eager evaluation is right, and so are
other versions. Below are particles in a periodic box, and the culprit the energy that
keeps them in it.
Reported as https://github.com/jax-ml/jax/issues/39103. Fails between 0.10.2 and any
other version; the other Python is named by UNTRACE_OTHER_PYTHON.
"""

import os

import jax
import jax.numpy as jnp
import numpy as np

ORIGIN = "https://github.com/jax-ml/jax/issues/39103"
OTHER = os.environ.get("UNTRACE_OTHER_PYTHON", "")
KEEP = f"differs(a='jit', b='python:{OTHER}', rtol=1e-3)"
VERSIONS = ("0.10", "0.12") if OTHER else ()
MINIMAL = 2

PARTICLES = 32_769


def forces(p, time, x):
    """Hold particles by springs in a wave that travels through the box."""
    u, v, w = x.T
    phase = p["number"] * u - p["frequency"] * time
    push = jnp.stack([jnp.sin(phase), 0.3 * jnp.cos(phase) * v, -0.1 * w * w], -1)
    return push - p["stiffness"] * x


def confinement(box, x):
    return jax.vmap(lambda row: jnp.sum((box @ row) ** 2))(x)


def program(p, box, x, v):
    time, dt = jnp.zeros((), x.dtype), p["dt"]
    for _ in range(16):
        half = v + 0.5 * dt * forces(p, time, x)
        x = x + dt * half
        x = x - jnp.round(x / 8.0) * 8.0
        time = time + dt
        v = half + 0.5 * dt * forces(p, time, x)
    kinetic = 0.5 * (v * v).sum(-1)
    return x, v, kinetic + p["stiffness"] * confinement(box, x)


PROGRAM = program


def arguments():
    rng = np.random.default_rng(1)
    p = {"number": 2.0, "frequency": 1.5, "stiffness": 0.7, "dt": 0.01}
    p = {name: np.float32(value) for name, value in p.items()}
    x = rng.uniform(-4, 4, (PARTICLES, 3)).astype(np.float32)
    box = np.eye(3, dtype=np.float32) + np.eye(3, k=1, dtype=np.float32) * 0.5
    return p, box, x, 0.1 * np.flip(x, 1)


def minimal(box, x):
    """Sum the coordinates of the products; squaring them is not needed."""
    return jax.lax.dot_general(box, x, (((1,), (1,)), ((), ()))).sum(0)


def minimal_arguments():
    return np.eye(3, dtype=np.float32), np.arange(
        3 * PARTICLES, dtype=np.float32
    ).reshape(PARTICLES, 3)
