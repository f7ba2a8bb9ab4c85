"""Runs cases, each in a process of its own, and appends what is found to a record.

`python -m tests.corpus.packages --record FILE` goes on where the record ends.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import jax
from rich.console import Console
from rich.progress import track

from tests.corpus.packages.cases import Case, load_all
from tests.corpus.packages.finding import Finding, from_json
from tests.corpus.packages.table import read, report

SAMPLE_OF = ("equinox", "flax", "optax")
"""The packages of the sample, which the project's tests install anyway."""


def chosen(
    only: str = "", tag: str = "", step: int = 1, offset: int = 0, sample: bool = False
) -> list[Case]:
    """Choose cases by a part of their names and a tag."""
    cases = [case for _, case in sorted(load_all().items())]
    if sample:
        cases = [case for case in cases if case.package in SAMPLE_OF][::18]
    kept = [c for c in cases if only in c.name and (not tag or tag in c.tags)]
    return kept[offset::step]


def run_apart(case: Case, level: str, timeout: float) -> Finding:
    """Judge a case in a fresh process, which may crash or hang."""
    module = "tests.corpus.packages.judge"
    command = [sys.executable, "-m", module, case.name, "--level", level]
    found = Finding(case.name, case.package, level, jax.__version__)
    try:
        done = subprocess.run(command, capture_output=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        found.outcome, found.detail = "timeout", f"{timeout:.0f} s"
        return found
    lines = done.stdout.decode(errors="replace").splitlines()
    try:
        return from_json(lines[-1])
    except (IndexError, ValueError, TypeError):
        found.outcome = "crashes"
        tail = done.stderr.decode(errors="replace").strip()[-600:]
        found.detail = f"exit status {done.returncode}\n{tail}"
        return found


def run_all(
    tasks: Iterable[tuple[Case, str]], timeout: float, jobs: int
) -> Iterator[Finding]:
    """Judge cases, `jobs` at a time, in the order in which they end."""
    pool = ThreadPoolExecutor(jobs)
    try:
        futures = [pool.submit(run_apart, c, level, timeout) for c, level in tasks]
        for future in as_completed(futures):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def main() -> None:
    """Run the chosen cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("only", nargs="?", default="", help="part of a case's name")
    parser.add_argument("--tag", default="", help="only cases with this tag")
    parser.add_argument("--level", choices=("lax", "api", "both"), default="both")
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=300, help="seconds per case")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--sample", action="store_true", help="a fixed part")
    parser.add_argument("--record", type=Path, help="file of JSON lines; goes on there")
    options = parser.parse_args()
    levels = ("lax", "api") if options.level == "both" else (options.level,)
    cases = chosen(
        options.only, options.tag, options.step, options.offset, options.sample
    )
    record: Path | None = options.record
    earlier = read([record]) if record is not None and record.exists() else []
    done = {(f.name, f.level) for f in earlier}
    names = {case.name for case in cases}
    results = [f for f in earlier if f.name in names and f.level in levels]
    tasks = [(c, level) for c in cases for level in levels]
    tasks = [(c, level) for c, level in tasks if (c.name, level) not in done]
    console = Console(stderr=True)
    if record is not None:
        record.parent.mkdir(parents=True, exist_ok=True)
    running = run_all(tasks, options.timeout, options.jobs)
    for found in track(running, "cases", total=len(tasks), console=console):
        results.append(found)
        if record is not None:
            with record.open("a") as file:
                file.write(found.to_json() + "\n")
        line = f"{found.outcome} {found.level} {found.name} {found.detail[:150]}"
        console.print(line, markup=False, highlight=False)
    print(report(results))


if __name__ == "__main__":
    main()
