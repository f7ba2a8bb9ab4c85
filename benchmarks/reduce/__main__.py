"""Reduce every failure of `benchmarks/reduce/cases` and print what was reached.

    python -m benchmarks.reduce [NAME ...] [--jobs N] [--keep-files FOLDER]
                                [--text-reducer]

For each failure: its kind, the equations before and after, those of the form known to
be minimal, the runs of the predicate and what they were allowed to be (10 x log2 of the
equations + 20 x those that are left), the wall time, and whether the saved file fails in
a fresh process, by itself and in the way that was pinned. `--text-reducer` gives the
same program and predicate to shrinkray (`pip install shrinkray`), for comparison.
"""

from __future__ import annotations

import argparse
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

import untrace
from benchmarks.reduce.cases import load, names
from benchmarks.reduce.text_reducer import compared, n_tokens
from untrace.errors import KeepError
from untrace.reduction.keeping import Keep, parse_keep
from untrace.reduction.loading import load_program
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
    tokens: int
    fails_again: bool

    def cells(self) -> list[str]:
        return [
            self.name,
            self.kind,
            f"{self.before:,}",
            str(self.after),
            str(self.minimal),
            str(self.runs),
            str(self.allowed),
            f"{self.seconds:.0f} s",
            f"{self.seconds / max(self.runs, 1):.2f} s",
            str(self.tokens),
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
    "fails again",
)


def names_here() -> list[str]:
    """List the failures that exist on this version of JAX."""
    return [n for n in names() if jax.__version__.startswith(load(n).VERSIONS)]


def reduced(case: ModuleType, jobs: int = 1) -> Reduction:
    """Reduce the program of a case."""
    shrink = untrace.reduce(case.PROGRAM, keep=case.KEEP, jobs=jobs)
    return shrink(*case.arguments())


def fails_again(path: Path, keep: Keep) -> bool:
    """Tell whether a saved file fails with Python alone, and in the way that is kept."""
    fails = _fails(path) if keep.check_lines("f") else True
    return fails and Judge(keep.without_margin()).judge_program(load_program(path))


def _fails(path: Path) -> bool:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}  # for planted primitives
    try:
        done = subprocess.run(
            [sys.executable, str(path)],
            env=environment,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def measure(name: str, jobs: int, folder: Path) -> Row:
    case = load(name)
    started = time.monotonic()
    reduction = reduced(case, jobs)
    seconds = time.monotonic() - started
    path = reduction.save(folder / f"{name}.py")
    reduction.plot(folder / f"{name}.svg")
    before, after = reduction.start, reduction.n_equations
    return Row(
        name,
        str(parse_keep(case.KEEP)).partition("(")[0],
        before,
        after,
        case.MINIMAL,
        reduction.stats.runs,
        math.floor(10 * math.log2(before) + 20 * after),
        seconds,
        n_tokens(str(reduction.source)),
        fails_again(path, reduction.keep),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=1)
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
                row = measure(name, options.jobs, folder)
            except KeepError as error:
                print(f"| {name} | {str(error).splitlines()[0]} |", flush=True)
                continue
            print("| " + " | ".join(row.cells()) + " |", flush=True)
            if options.text_reducer:
                print(compared(load(name), row.tokens, row.runs), flush=True)


if __name__ == "__main__":
    main()
