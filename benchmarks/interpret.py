"""Cost of evaluating with a handler, as ratios measured in one process.

    python benchmarks/interpret.py

The time of `evaluate` with a handler that does nothing, in the contexts that
`untrace.interpret` restores, against `jax.core.eval_jaxpr` on the same jaxpr, which does
not enter sub-programs: the programs have none. Medians over repetitions.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from untrace import jaxapi
from untrace.interpreters.evaluate import Step, evaluate


def chain(x: Any, y: Any) -> Any:
    """Small equations, where the evaluation itself costs the most."""
    for _ in range(300):
        x = jnp.sin(x) * 2.0 + y
        x = jnp.exp(-jnp.abs(x))
    return x


def layers(x: Any, y: Any) -> Any:
    """The gradient of a network."""

    def loss(x: Any) -> Any:
        for _ in range(60):
            x = jnp.tanh(x @ jnp.outer(y, y)) + x
        return jnp.sum(x)

    return jax.grad(loss)(x)


def as_it_is(step: Step, *operands: Any) -> Any:
    """Evaluate an equation."""
    return step(*operands)


def ratio(function: Callable[..., Any], repetitions: int = 15) -> float:
    """Return the time of `evaluate` over that of JAX's own evaluation."""
    args = (jnp.linspace(0.0, 1.0, 8), jnp.linspace(1.0, 2.0, 8))
    jaxpr = jax.make_jaxpr(function)(*args)
    calls = [
        lambda: jax.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *args),
        lambda: evaluate(jaxpr, args, as_it_is, jaxapi.equation_context),
    ]
    times: list[list[float]] = [[], []]
    for _ in range(repetitions + 1):
        for call, taken in zip(calls, times, strict=True):
            start = time.process_time()
            jax.block_until_ready(call())
            taken.append(time.process_time() - start)
    theirs, ours = (statistics.median(taken[1:]) for taken in times)
    return ours / theirs


if __name__ == "__main__":
    for program in (chain, layers):
        print(f"{program.__name__}: {ratio(program):.2f} x jax.core.eval_jaxpr")
