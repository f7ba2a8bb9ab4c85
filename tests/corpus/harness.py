"""JAX's own primitive harness as a corpus.

`python -m tests.corpus.harness --help` runs all of it, or a part; the test suite runs a
sample. Each case is traced, recovered, executed, re-traced and compared; with
`--values` its outputs under `jit` must be bitwise those of the original.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

import untrace


@dataclass
class Outcome:
    """What came of one case."""

    name: str
    group: str
    verdict: str
    detail: str = ""
    values: str = ""


def cases() -> list[Any]:
    """List the harness, sorted by name: JAX's own order depends on hashing."""
    from jax._src.internal_test_util.test_harnesses import all_harnesses

    return sorted(all_harnesses, key=lambda h: h.fullname)


def sampled(step: int, offset: int = 0) -> list[Any]:
    """Take every `step`-th case, and at least one of every group."""
    chosen: list[Any] = []
    seen: set[str] = set()
    for position, case in enumerate(cases()):
        if position % step == offset or case.group_name not in seen:
            seen.add(case.group_name)
            chosen.append(case)
    return chosen


def run(case: Any, values: bool = False) -> Outcome:
    """Recover one case and verify it."""
    name, group = case.fullname, case.group_name
    args = case.dyn_args_maker(np.random.RandomState(0))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            jax.make_jaxpr(case.dyn_fun)(*args)
    except Exception as error:  # what JAX itself cannot trace is not ours
        return Outcome(
            name, group, "untraceable", f"{type(error).__name__}: {error}"[:200]
        )
    try:
        src = untrace.source(case.dyn_fun, level="lax")(*args)
    except Exception:
        return Outcome(name, group, "error", traceback.format_exc()[-1500:])
    verdict = src.report.strength
    detail = "" if verdict == "identical" else str(src.report.difference)[:600]
    outcome = Outcome(name, group, verdict, detail)
    if values and verdict == "identical":
        outcome.values = compare_values(case.dyn_fun, src.load(), args, src)
    return outcome


def compare_values(function: Any, recovered: Any, args: Any, src: Any) -> str:
    """Run both under `jit`; say "equal", "different" or why the reference fails."""
    names = [p.name for p in src.captured.parameters]
    try:
        wanted = jax.tree.leaves(jax.jit(lambda *a: function(*a))(*args))
        jax.block_until_ready(wanted)
    except Exception as error:  # some references do not run on CPU
        return f"reference fails: {type(error).__name__}"
    got = jax.tree.leaves(jax.jit(lambda *a: recovered(**dict(zip(names, a))))(*args))
    same = all(_bits(a) == _bits(b) for a, b in zip(wanted, got, strict=True))
    return "equal" if same else "different"


def _bits(array: Any) -> bytes:
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    return np.asarray(array).tobytes()


def main() -> None:
    """Run the corpus and print a table of verdicts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--step", type=int, default=1, help="take every STEP-th case")
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--x64", action="store_true", help="with 64-bit types")
    parser.add_argument(
        "--values", action="store_true", help="compare outputs under jit"
    )
    parser.add_argument("--group", help="only groups whose name contains this")
    parser.add_argument("--failures", help="write failures to this file, as JSON lines")
    options = parser.parse_args()
    if options.x64:
        jax.config.update("jax_enable_x64", True)
    chosen = sampled(options.step, options.offset)
    if options.group:
        chosen = [case for case in chosen if options.group in case.group_name]
    report(outcomes(chosen, options.values), options.failures)


def outcomes(chosen: list[Any], values: bool) -> Iterator[Outcome]:
    """Run cases, showing progress; free compiled code from time to time."""
    start = time.time()
    for position, case in enumerate(chosen):
        if position % 500 == 499:
            rate = (position + 1) / (time.time() - start)
            print(
                f"{position + 1}/{len(chosen)} cases, {rate:.0f} per second",
                file=sys.stderr,
            )
            jax.clear_caches()
        yield run(case, values)


def report(results: Iterator[Outcome], failures: str | None) -> None:
    """Print verdict counts and the first failures; exit 1 if there are any."""
    verdicts: collections.Counter[str] = collections.Counter()
    values: collections.Counter[str] = collections.Counter()
    bad: list[Outcome] = []
    for outcome in results:
        verdicts[outcome.verdict] += 1
        if outcome.values:
            values[outcome.values.partition(":")[0]] += 1
        if (
            outcome.verdict not in ("identical", "untraceable")
            or outcome.values == "different"
        ):
            bad.append(outcome)
    print(f"jax {jax.__version__}, x64 {jax.config.jax_enable_x64}")
    print("verdicts:", dict(verdicts))
    if values:
        print("values:  ", dict(values))
    if failures:
        with open(failures, "w") as file:
            file.writelines(json.dumps(vars(outcome)) + "\n" for outcome in bad)
    for outcome in bad[:40]:
        print(f"- {outcome.verdict} {outcome.name} {outcome.values}\n{outcome.detail}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
