"""What stands inside a call that the failure needs is cut like a whole program."""

import jax
import jax.numpy as jnp
import numpy as np

import untrace
from benchmarks.reduce.planted import offload

X = np.linspace(1.0, 2.0, 4, dtype=np.float32)
MESSAGE = "memory space is assigned twice"


def recomputed(x, w):
    @jax.checkpoint
    def layer(x, w):
        y = jnp.tanh(x * w)
        kept = offload(jnp.sin(y))
        return jnp.cumsum(y), kept.astype(jnp.bfloat16)

    total, kept = layer(x + 1, w)
    return total.sum() + kept.sum()


def test_a_call_keeps_only_what_fails_in_it():
    keep = untrace.keep.raises("RuntimeError", message=MESSAGE)
    reduction = untrace.reduce(recomputed, keep=keep)(X, X)
    assert reduction.n_equations == 2
    assert "jax.checkpoint(layer)" in str(reduction.source)


def test_calls_in_calls_are_cut():
    @jax.jit
    def outer(x, w):
        return recomputed(x, w) * 2, x - w

    keep = untrace.keep.contains("jit") & untrace.keep.raises(message=MESSAGE)
    reduction = untrace.reduce(lambda x: outer(x, x)[0], keep=keep)(X)
    assert reduction.n_equations <= 3
    assert "jax.checkpoint(layer)" in str(reduction.source)


def test_a_solve_is_opened():
    keep = untrace.keep.nan()
    a = np.zeros((3, 3), np.float32)
    reduction = untrace.reduce(jax.vmap(jnp.linalg.solve), keep=keep)(
        a[None], X[None, :3]
    )
    assert reduction.n_equations <= 2
    assert "linear_solve_p" not in str(reduction.source)
