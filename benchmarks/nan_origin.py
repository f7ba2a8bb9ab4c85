"""Cost of `untrace.nan_origin`: the time of its compiled runs against the jitted program.

    python benchmarks/nan_origin.py

Processor time, on other platforms than CPU elapsed time, both without compilation; medians
over repetitions, in one process.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp

import untrace
from untrace.interpreters.nans import flagging, turns

SIZE, LAYERS, STEPS = 512, 8, 32


def clock() -> float:
    """Return seconds, of which differences count."""
    if jax.default_backend() == "cpu":
        return time.process_time()
    return time.perf_counter()


def mlp(weights: Any, x: Any, bad: Any) -> Any:
    """A loss with a norm, whose gradient is NaN if it is of zeros."""
    for w in weights:
        x = jax.nn.gelu(x @ w)
    return jnp.mean(x**2) + jnp.linalg.norm(x[0] * bad)


def rnn(weights: Any, x: Any, bad: Any) -> Any:
    """A loss over a loop."""

    def step(h: Any, i: Any) -> Any:
        for w in weights[:2]:
            h = jnp.tanh(h @ w)
        return h, jnp.linalg.norm(h[0] * jnp.where(i == STEPS // 2, bad, 1.0))

    h, norms = jax.lax.scan(step, x, jnp.arange(STEPS))
    return jnp.mean(h) + norms.sum()


def ratio(loss: Callable[..., Any], bad: float, repetitions: int = 5) -> float:
    """Return the time of all runs over that of the jitted gradient."""
    keys = jax.random.split(jax.random.key(0), LAYERS)
    weights = [jax.random.normal(k, (SIZE, SIZE)) * SIZE**-0.5 for k in keys]
    args = (weights, jnp.ones((SIZE, SIZE)), jnp.float32(bad))
    jitted = jax.jit(jax.grad(loss)).trace(*args).lower().compile()
    taken: list[float] = []

    def timed(function: Callable[..., Any], *args: Any) -> Any:
        run = jax.jit(function).trace(*args).lower().compile()
        made = jax.block_until_ready(run(*args))
        start = clock()
        made = jax.block_until_ready(run(*args))
        taken.append(clock() - start)
        return made

    theirs, ours = list[float](), list[float]()
    for _ in range(repetitions):
        jax.block_until_ready(jitted(*args))
        start = clock()
        jax.block_until_ready(jitted(*args))
        theirs.append(clock() - start)
        taken.clear()
        with (
            mock.patch.object(flagging, "compiled", timed),
            mock.patch.object(turns, "compiled", timed),
        ):
            found = untrace.nan_origin(jax.grad(loss))(*args)
        assert (found is None) == (bad != 0)
        ours.append(sum(taken))
    return statistics.median(ours) / statistics.median(theirs)


if __name__ == "__main__":
    print(f"jax {jax.__version__}, {jax.devices()[0].device_kind}")
    for program in (mlp, rnn):
        for bad in (1.0, 0.0):
            what = "NaN" if bad == 0 else "no NaN"
            print(
                f"gradient of {program.__name__}, {what}: {ratio(program, bad):.2f} x"
            )
