"""The second call compiles again: an output is not of its input's type.

The state of a sampler starts with a Python number as its step size, whose type is weak;
the adapted step size that comes out is strongly typed, so that calling the program on
what it returned traces and compiles it once more. `program` maps a state to a state of
the same structure; `recompiles()` calls it on its own output.
Reported as https://github.com/jax-ml/jax/issues/3163 and, from MuJoCo,
https://github.com/google-deepmind/mujoco/issues/2306. All versions.
"""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.reduce import programs

ORIGIN = "https://github.com/jax-ml/jax/issues/3163"
KEEP = "recompiles()"
VERSIONS = ("0.10", "0.12")
MINIMAL = 1


def program(state):
    x, y, group = state["data"]

    def log_density(q):
        return programs.hierarchical_log_density(q, x, y, group)

    key, use = jax.random.split(state["key"])
    positions, accepted = programs.hmc(
        log_density, use, state["position"], samples=1, step_size=state["step_size"]
    )
    rate = accepted.astype(jnp.float32).mean()
    return {
        "position": jax.tree.map(lambda leaf: leaf[-1], positions),
        "step_size": state["step_size"] * jnp.exp(0.1 * (rate - 0.65)),
        "key": key,
        "data": state["data"],
    }


PROGRAM = program


def arguments():
    position, *data = programs.survey()
    state = {"position": position, "step_size": 0.05, "data": tuple(data)}
    return (state | {"key": np.array([0, 7], np.uint32)},)


def minimal(step_size):
    return jax.lax.convert_element_type(step_size, np.float32)


def minimal_arguments():
    return (0.05,)
