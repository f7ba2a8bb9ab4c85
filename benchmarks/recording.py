"""What recording costs: time to trace with the recorder, over time to trace without.

    python -m benchmarks.recording [NAME ...] [--repetitions N]

Both trace anew (JAX's caches of inner traces are not used), in one process, in turns;
the ratio is that of the medians of the processor time of this thread, which other jobs
change less than they change the clock. Programs are those of `benchmarks/readability` and a
long unrolled one.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.readability import corpus
from untrace import jaxapi
from untrace.capture.capture import capture
from untrace.recorded import recording

LIMIT = 1.5 if sys.version_info >= (3, 12) else 4.0


def unrolled(x: Any) -> Any:
    """Make 5,000 equations."""
    for _ in range(500):
        x = jnp.sin(x) * 2.0 + 1.0
        x = jnp.tanh(x) @ jnp.eye(3)
    return x


def seconds(run: Callable[[], Any]) -> float:
    """Time one run, after a collection."""
    gc.collect()
    start = time.thread_time()
    run()
    return time.thread_time() - start


def ratio(
    function: Any, args: tuple[Any, ...], repetitions: int
) -> tuple[float, float]:
    """Return the seconds to trace, and how many times that recording takes."""

    def plain() -> None:
        with jaxapi.without_trace_caches():
            capture(function, args, {})

    def recorded() -> None:
        _, record = recording()
        capture(function, args, {}, record=record, keep_types=False)

    plain(), recorded()
    times = [(seconds(plain), seconds(recorded)) for _ in range(repetitions)]
    first, second = (statistics.median(column) for column in zip(*times))
    return first, second / first


def main() -> int:
    """Print a table; the exit status tells whether the median is within the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    ratios: list[float] = []
    plain = recorded = 0.0
    for name in options.names or [*corpus.names(), "unrolled"]:
        try:
            if name == "unrolled":
                function, args = unrolled, (jnp.ones((3, 3)),)
            else:
                program = corpus.load(name)
                function, args = program.function, program.args
        except corpus.MissingError as error:
            print(f"{name:22} {error}")
            continue
        first, times = ratio(function, args, options.repetitions)
        ratios.append(times)
        plain, recorded = plain + first, recorded + first * times
        print(f"{name:22} {first * 1e3:8.1f} ms  x {times:.2f}")
    median = statistics.median(ratios)
    how = "sys.monitoring" if hasattr(sys, "monitoring") else "sys.setprofile"
    print(
        f"\njax {jax.__version__}, {how}: median x {median:.2f}, "
        f"all together x {recorded / plain:.2f}, worst x {max(ratios):.2f}"
    )
    print(f"limit x {LIMIT}: {'pass' if median <= LIMIT else 'FAIL'}")
    return 0 if median <= LIMIT else 1


if __name__ == "__main__":
    raise SystemExit(main())
