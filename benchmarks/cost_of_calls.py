"""Cost of source that reads like the user's: `source(f)(*args)` over `make_jaxpr(f)(*args)`.

    python -m benchmarks.cost --level api [FAMILY ...] [--largest SIZE]

Both with cold caches, in one process, in turns; medians of the processor time. The growth
is the exponent of the time by the number of equations, fitted over the sizes of a family.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

import untrace
from benchmarks.families import FAMILIES, Program
from untrace.interpreters.sub_programs import all_equations

GROWTH = 1.05
"""The exponent that no family may exceed."""


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the processor time of a call, with cold caches, and its result."""
    jax.clear_caches()
    gc.collect()
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def measure(program: Program, repetitions: int) -> tuple[int, float, float, Any]:
    """Return the number of equations, the times of tracing and of source, the source."""
    function, args = program
    traced: list[float] = []
    written: list[float] = []
    jaxpr: Any = None
    src: Any = None
    for _ in range(repetitions):
        taken, jaxpr = seconds(lambda: make_jaxpr(function, args))
        traced.append(taken)
        taken, src = seconds(lambda: untrace.source(function)(*args))
        written.append(taken)
    n = sum(1 for _ in all_equations(jaxpr))
    return n, statistics.median(traced), statistics.median(written), src


def make_jaxpr(function: Any, args: Any) -> Any:
    """Trace a function of trees in which not all leaves are arrays."""
    leaves, tree = jax.tree.flatten(args)
    places = [i for i, leaf in enumerate(leaves) if is_array(leaf)]

    def flat(*values: Any) -> Any:
        filled = dict(enumerate(leaves)) | dict(zip(places, values))
        made = function(*jax.tree.unflatten(tree, list(filled.values())))
        return [leaf for leaf in jax.tree.leaves(made) if is_array(leaf)]

    return jax.make_jaxpr(flat)(*[leaves[i] for i in places])


def is_array(leaf: Any) -> bool:
    """Return whether a leaf is traced."""
    return isinstance(leaf, jax.Array | np.ndarray | np.generic | int | float | complex)


def growth(counts: Sequence[int], times: Sequence[float]) -> float:
    """Fit the exponent of times by counts: the slope of their logarithms."""
    xs, ys = [math.log(n) for n in counts], [math.log(t) for t in times]
    x, y = statistics.mean(xs), statistics.mean(ys)
    spread = sum((a - x) ** 2 for a in xs)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys)) / spread if spread else 0.0


def main(names: Sequence[str], repetitions: int, largest: int) -> int:
    """Print the table; return how many families are above what is wanted."""
    console = Console(width=110)
    table = Table(title=f"jax {jax.__version__}; milliseconds of processor time")
    for column in (
        "family", "size", "equations", "make_jaxpr", "source", "ratio", "wanted", "growth",
        "verdict",
    ):  # fmt: skip
        table.add_column(column, justify="right")
    n_above = 0
    for name in names or FAMILIES:
        make, sizes, wanted = FAMILIES[name]
        rows: list[tuple[int, int, float, float, str]] = []
        try:
            measure(make(sizes[0]), 1)
            for size in [size for size in sizes if size <= largest]:
                n, traced, written, src = measure(make(size), repetitions)
                rows.append((size, n, traced, written, src.report.strength))
        except ImportError as error:
            console.print(f"{name}: not installed ({error})")
            continue
        exponent = growth([row[1] for row in rows], [row[3] for row in rows])
        for row in rows:
            size, n, traced, written, strength = row
            is_last = row is rows[-1]
            table.add_row(
                name, str(size), str(n), f"{traced * 1e3:.0f}", f"{written * 1e3:.0f}",
                f"{written / traced:.1f}", f"{wanted:.0f}",
                f"{exponent:.2f}" if is_last and len(rows) > 1 else "", strength,
            )  # fmt: skip
        above = any(written / traced > wanted for _, _, traced, written, _ in rows)
        n_above += above or exponent > GROWTH
    console.print(table)
    return n_above
