"""An XLA flag changes results: excess precision removes a correction for rounding.

XLA may keep a bfloat16 result in float32 if it is converted to that anyway, unless told
otherwise by `--xla_allow_excess_precision=false`. What an update lost by rounding,
`update - (new - old)`, is then always zero, and compensated (Kahan) summation does
nothing. Below it belongs to an optimizer with bfloat16 master weights.
Reported as https://github.com/jax-ml/jax/issues/23007. All versions.
"""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.reduce import programs

ORIGIN = "https://github.com/jax-ml/jax/issues/23007"
FLAG = "--xla_allow_excess_precision=false"
KEEP = f"differs(a='jit', b='env:XLA_FLAGS={FLAG}', rtol=1e-3)"
VERSIONS = ("0.10", "0.12")
MINIMAL = 2

STEP = programs.train_step(programs.moe_loss)


def compensated(old, update, error):
    """Add an update in bfloat16; return the sum and what rounding left out."""
    update = update + error
    new = old + update.astype(jnp.bfloat16)
    return new, update - (new.astype(jnp.float32) - old.astype(jnp.float32))


def program(state, master, error, x, target):
    before = state["params"]
    state, metrics = STEP(state, x, target)
    update = jax.tree.map(jnp.subtract, state["params"], before)
    pairs = jax.tree.map(compensated, master, update, error)
    master, error = jax.tree.transpose(
        jax.tree.structure(master), jax.tree.structure((0, 0)), pairs
    )
    return state, master, error, metrics


PROGRAM = program


def arguments():
    params = programs.moe_params(layers=2)
    half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
    zeros = jax.tree.map(np.zeros_like, params)
    x, target = programs.weights(6, 8), programs.weights(6, 8, seed=2)
    return programs.adam_state(params), half, zeros, x, target


def minimal(old, update):
    return (old + update).astype(jnp.float32)


def minimal_arguments():
    return np.asarray(1.0, jnp.bfloat16), np.asarray(0.0123, jnp.bfloat16)
