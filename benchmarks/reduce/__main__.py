"""Reduce every failure of `benchmarks/reduce/cases` and print what was reached.

    python -m benchmarks.reduce [NAME ...] [--jobs N] [--keep-files FOLDER]
                                [--max-seconds N] [--runs-alone N] [--text-reducer]

For each failure: its kind, the equations before and after, those of the form known to
be minimal, the runs of the predicate and what they were allowed to be (10 x log2 of the
equations + 20 x those that are left), the wall time, and whether the saved file fails in
a fresh process, by itself (in how many runs of `--runs-alone`) and in the way that was
pinned. How it reads: tokens, lines, calls of `bind`, sidecars, and which primitives of
the form found by hand the explanation in the header names, and whether it says why. A
star marks a search that `--max-seconds` ended. `--text-reducer` gives the same program
and predicate to shrinkray (`pip install shrinkray`), for comparison.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import jax
import jax.numpy as jnp

import untrace
from benchmarks.reduce.cases import load, names
from benchmarks.reduce.text_reducer import compared
from untrace.errors import KeepError
from untrace.ir import all_equations, from_jaxpr
from untrace.reduction.keeping import Keep, parse_keep
from untrace.reduction.loading import load_program
from untrace.reduction.polishing import Look, look
from untrace.reduction.result import Reduction
from untrace.reduction.trials import Judge

ROOT = Path(__file__).parent.parent.parent
TIMEOUT_S = 120


@dataclass(frozen=True)
class Row:
    """What one reduction reached."""

    name: str
    kind: str
    before: int
    after: int
    minimal: int
    runs: int
    allowed: int
    seconds: float
    is_ended: bool
    reads: Look
    lines: int
    explained: str
    alone: str
    fails_again: bool

    def cells(self) -> list[str]:
        return [
            self.name,
            self.kind,
            f"{self.before:,}",
            f"{self.after}{' *' if self.is_ended else ''}",
            str(self.minimal),
            str(self.runs),
            str(self.allowed),
            f"{self.seconds:.0f} s",
            f"{self.seconds / max(self.runs, 1):.2f} s",
            str(self.reads.tokens),
            str(self.lines),
            str(self.reads.binds),
            str(self.reads.sidecars),
            self.explained,
            self.alone,
            "yes" if self.fails_again else "NO",
        ]


HEADER = (
    "failure",
    "kind",
    "equations",
    "left",
    "minimal",
    "runs",
    "allowed",
    "time",
    "per run",
    "tokens",
    "lines",
    "bind",
    "sidecar",
    "explained",
    "alone",
    "fails again",
)


def names_here() -> list[str]:
    """List the failures that exist on this version of JAX."""
    return [n for n in names() if jax.__version__.startswith(load(n).VERSIONS)]


def reduced(
    case: ModuleType, jobs: int = 1, max_seconds: float | None = None
) -> Reduction:
    """Reduce the program of a case."""
    shrink = untrace.reduce(
        case.PROGRAM, keep=case.KEEP, jobs=jobs, max_seconds=max_seconds
    )
    return shrink(*case.arguments())


def fails_again(path: Path, keep: Keep) -> bool:
    """Tell whether a saved file fails with Python alone, and in the way that is kept."""
    return _fails(path) and _is_kept(path, keep)


def _is_kept(path: Path, keep: Keep) -> bool:
    return Judge(keep.without_margin()).judge_program(load_program(path))


def _fails(path: Path) -> bool:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # for planted primitives
    is_checked = '"--check" in sys.argv' in path.read_text(encoding="utf-8")
    try:
        done = subprocess.run(
            [sys.executable, str(path), *(["--check"] if is_checked else [])],
            env=environment,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def explained(case: ModuleType, title: str) -> str:
    """List the primitives of the form found by hand, or its gradient, that are named.

    With "why", if the explanation says what happens there; "" if it names none.
    """
    saying = ("Made by", "It takes")
    told = [line for line in title.splitlines() if line.startswith(saying)]
    minimal, args = case.minimal, case.minimal_arguments()
    jaxprs = [jax.make_jaxpr(minimal)(*args)]
    if any(run.under == "grad" for run in parse_keep(case.KEEP).runs):
        gradient = jax.grad(lambda *args: jnp.sum(minimal(*args)))
        with contextlib.suppress(Exception):  # that may be what fails
            jaxprs.append(jax.make_jaxpr(gradient)(*args))
    known = [from_jaxpr(jaxpr) for jaxpr in jaxprs]
    names = dict.fromkeys(eqn.name for block in known for eqn in all_equations(block))
    named = [name for name in names if any(f"`{name}`" in line for line in told)]
    return ", ".join([*named, *(["why"] if "\nWhy:" in title else [])])


def measure(name: str, options: argparse.Namespace, folder: Path) -> Row:
    case = load(name)
    started = time.monotonic()
    reduction = reduced(case, options.jobs, options.max_seconds)
    seconds = time.monotonic() - started
    path = reduction.save(folder / f"{name}.py")
    reduction.plot(folder / f"{name}.svg")
    before, after = reduction.start, reduction.n_equations
    n_failed = sum(_fails(path) for _ in range(options.runs_alone))
    text = path.read_text(encoding="utf-8")
    return Row(
        name,
        str(parse_keep(case.KEEP)).partition("(")[0],
        before,
        after,
        case.MINIMAL,
        reduction.stats.runs,
        math.floor(10 * math.log2(before) + 20 * after),
        seconds,
        bool(reduction.ended),
        look(reduction.source),
        len(text.splitlines()),
        explained(case, reduction.source.title),
        f"{n_failed} of {options.runs_alone}",
        bool(n_failed) and _is_kept(path, reduction.keep),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--max-seconds", type=float)
    parser.add_argument("--runs-alone", type=int, default=1)
    parser.add_argument("--keep-files", type=Path)
    parser.add_argument("--text-reducer", action="store_true")
    options = parser.parse_args()
    chosen = options.names or names_here()
    print("| " + " | ".join(HEADER) + " |")
    print("|" + "---|" * len(HEADER))
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep_files or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in chosen:
            try:
                row = measure(name, options, folder)
            except KeepError as error:
                print(f"| {name} | {str(error).splitlines()[0]} |", flush=True)
                continue
            print("| " + " | ".join(row.cells()) + " |", flush=True)
            if options.text_reducer:
                print(compared(load(name), row.reads.tokens, row.runs), flush=True)


if __name__ == "__main__":
    main()
