"""List the failures: python -m benchmarks.reduce.cases [--check] [NAME ...]

With `--check`, run each program and its minimal form in fresh processes and say whether
they fail as wanted, and how long a run of the program takes. Cases of other versions of
JAX than the one at hand are listed without.
"""

from __future__ import annotations

import argparse
import time

import jax

from benchmarks.reduce import cases
from benchmarks.reduce.cases._checking import check, n_equations


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reduce.cases")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    columns = ("name", "kind", "equations", "minimal", "versions", "origin")
    columns += ("seconds", "program", "minimal form") if options.check else ()
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for name in options.names or cases.names():
        case = cases.load(name)
        is_here = jax.__version__.startswith(case.VERSIONS)
        n = n_equations(case.PROGRAM, *case.arguments()) if is_here else "-"
        row = [name, case.KEEP.partition("(")[0], f"{n:,}" if is_here else n]
        row += [case.MINIMAL, "+".join(case.VERSIONS), case.ORIGIN]
        if options.check and is_here:
            began = time.perf_counter()
            fails, _ = check(name, "PROGRAM")
            row += [f"{time.perf_counter() - began:.1f}", fails]
            row += [check(name, "minimal")[0]]
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
