"""Cost of recovering source, as ratios measured in one process.

    python benchmarks/cost.py            100 to 100,000 equations
    python benchmarks/cost.py --quick    up to 10,000
    python -m benchmarks.cost --level api    source that reads like the user's, by families

Three ratios, of medians of the processor time over repetitions: text without
verification against `str(closed_jaxpr)`; all of `source(f, level="lax")(x)`, verification included, against
`jax.make_jaxpr(f)(x)`; peak extra memory against what the jaxpr itself takes.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from rich.console import Console
from rich.table import Table

import untrace
from untrace import jaxapi


def chain(n_equations: int) -> Callable[..., Any]:
    """Make a function of about `n_equations` mixed equations, as users write them."""

    def function(x, y):
        for _ in range(n_equations // 10):
            x = jnp.sin(x) * 2.0 + y
            x = x.reshape(4, 2).sum(1, keepdims=True) * jnp.ones((4, 2))
            x = jnp.exp(-jnp.abs(x.reshape(8)))
        return x

    return function


def layers(n_equations: int) -> Callable[..., Any]:
    """Make the gradient of a deep network of about `n_equations` equations."""

    def loss(x, y):
        for _ in range(max(n_equations // 14, 1)):
            x = jnp.tanh(x @ jnp.outer(y, y)) + x
        return jnp.sum(x)

    return jax.grad(loss)


PROGRAMS = {"chain": chain, "gradient": layers}
ARGS = (jnp.linspace(0.0, 1.0, 8), jnp.linspace(1.0, 2.0, 8))


def seconds(calls: list[Callable[[], Any]], repetitions: int) -> list[float]:
    """Return the median processor time of each call; they take turns."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(repetitions):
        for call, taken in zip(calls, times):
            gc.collect()
            start = time.process_time()
            call()
            taken.append(time.process_time() - start)
    return [statistics.median(taken) for taken in times]


def measure(
    make: Callable[[int], Any], n_equations: int, repetitions: int
) -> list[Any]:
    """Measure one program at one size."""
    jaxpr = jax.make_jaxpr(make(n_equations))(*ARGS)
    n = len(jaxpr.eqns)
    # A new function each time: JAX remembers what it has traced.
    calls: list[Callable[[], Any]] = [
        lambda: str(jaxpr),
        lambda: str(untrace.source(jaxpr, verify=False)),
        lambda: jax.make_jaxpr(make(n_equations))(*ARGS),
        lambda: untrace.source(make(n_equations), level="lax")(*ARGS),
    ]
    printed, text, traced, verified = seconds(calls, repetitions)
    return [
        n,
        f"{printed / n * 1e6:.1f}",
        f"{text / n * 1e6:.1f}",
        f"{text / printed:.2f}",
        f"{traced / n * 1e6:.1f}",
        f"{verified / n * 1e6:.1f}",
        f"{verified / traced:.2f}",
        f"{memory(make, n_equations):.1f}",
    ]


def memory(make: Callable[[int], Any], n_equations: int) -> float:
    """Return the peak extra memory of `source` over that which the jaxpr takes."""
    gc.collect()
    tracemalloc.start()
    jaxpr = jax.make_jaxpr(make(n_equations))(*ARGS)
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    untrace.source(jaxpr)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (peak - size) / size


def nest(depth: int) -> Callable[..., Any]:
    """Make a nest of jitted functions and conditionals."""

    def function(x):
        return jnp.sin(x)

    for level in range(depth):
        inner = function

        def function(x, inner=inner, level=level):
            if level % 2:
                return jax.lax.cond(x > 0, inner, lambda y: y, x)
            return jax.jit(inner)(x) + 1.0

    return function


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--level", choices=("lax", "api"), default="lax")
    parser.add_argument("families", nargs="*", help="with --level api; all by default")
    parser.add_argument("--largest", type=int, default=10**9, help="the largest size")
    options = parser.parse_args()
    if options.level == "api":
        from benchmarks import cost_of_calls

        repetitions = min(options.repetitions, 3)
        sys.exit(cost_of_calls.main(options.families, repetitions, options.largest) > 0)
    sizes = [100, 1_000, 10_000] if options.quick else [100, 1_000, 10_000, 100_000]
    table = Table(title=f"jax {jax.__version__}; times in microseconds per equation")
    for column in (
        "program", "equations", "str(jaxpr)", "text", "ratio",
        "make_jaxpr", "verified", "ratio", "memory ratio",
    ):  # fmt: skip
        table.add_column(column, justify="right")
    for name, make in PROGRAMS.items():
        measure(make, 100, 1)
        for size in sizes:
            # The smallest programs take milliseconds, and need more of them.
            repetitions = options.repetitions * (5 if size <= 100 else 1)
            repetitions = 1 if size >= 100_000 else repetitions
            table.add_row(name, *map(str, measure(make, size, repetitions)))
    console = Console(width=120)
    console.print(table)
    with jaxapi.deep_recursion():
        start = time.perf_counter()
        deep = untrace.source(nest(200), level="lax")(1.0)
    console.print(
        f"nest of 200 levels: {deep.report.strength}, {time.perf_counter() - start:.1f} s"
    )


if __name__ == "__main__":
    main()
