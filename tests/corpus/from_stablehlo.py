"""The corpora lowered to StableHLO, read again, and compared.

    python -m tests.corpus.from_stablehlo --corpus harness --step 40
    python -m tests.corpus.from_stablehlo --corpus programs --step 20 --values
    python -m tests.corpus.from_stablehlo --corpus harness --via export --verbose
    python -m tests.corpus.from_stablehlo --corpus packages --timeout 120
    python -m tests.corpus.from_stablehlo --corpus harness --source api
    python -m tests.corpus.from_stablehlo --corpus harness --values --records FILE

Every case is lowered by JAX, its text is read (or its exported bytes, for symbolic shapes
in any case), and the jaxpr is lowered again. Where that is not the same StableHLO, both
modules run at the arguments of the case; with `--values` they always do. With `--source`
what is read is written as source of that level, and verified. With `--records` every
outcome is appended to a file, and cases of which it holds one are not run again.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.export
import numpy as np

import untrace
from tests.corpus import harness, programs
from tests.corpus.interpreted import limited, said
from tests.corpus.packages import apart
from tests.corpus.packages.run import chosen
from untrace.errors import LoadError
from untrace.jaxapi.modules import compiled_values
from untrace.readers.stablehlo.agreement import (
    BUT_FOR_HOST,
    BUT_FOR_SHARDINGS,
    SAME_MODULE,
    SAME_VALUES,
    agreement,
    lowered_again,
    structural_difference,
)
from untrace.readers.stablehlo.read import read_module

GOOD = (SAME_MODULE, BUT_FOR_SHARDINGS, BUT_FOR_HOST, SAME_VALUES)
NOT_OURS = ("not lowered", "does not run", "no time", "not installed", "case fails")


class Outcome(NamedTuple):
    """What came of one case: one of `GOOD` or `NOT_OURS`, "refused", "different", "error"."""

    name: str
    verdict: str
    detail: str = ""
    values: str = ""
    source: str = ""


class How(NamedTuple):
    """How cases are lowered, and what is done besides."""

    via: str = "text"
    is_valued: bool = False
    level: str = ""
    timeout_s: float = 300
    known: frozenset[str] = frozenset()  # cases that are not run again


def compared(name: str, function: Any, args: tuple[Any, ...], how: How) -> Outcome:
    """Lower a function, read it again, and compare."""
    via = "export" if has_symbolic_sizes(args) else how.via
    is_valued = how.is_valued
    try:
        jitted = function if hasattr(function, "lower") else jax.jit(function)
        if via == "export":
            module: Any = jax.export.export(jitted)(*args).mlir_module_serialized
            given = flat_arguments(jitted, args, True)
        else:
            lowered = jitted.lower(*args)
            module = lowered.as_text(debug_info=via == "names")
            given = flat_arguments(jitted, args, False)
    except Exception as error:  # what JAX itself cannot lower is not ours
        return Outcome(name, "not lowered", said(error))
    try:
        reading = read_module(module, via == "export")
        found = agreement(reading.module, reading.jaxpr, given)
    except LoadError as error:
        return Outcome(name, "refused", str(error)[:400])
    except Exception as error:
        return Outcome(name, "error", said(error))
    verdict, _, detail = found.partition(": ")
    if "not proved" in detail:
        return Outcome(name, "does not run", detail)
    if verdict == SAME_VALUES:
        detail = by_structure(reading)
    values = values_of(reading, given) if is_valued else ""
    source = source_of(reading, how.level) if how.level else ""
    return Outcome(name, verdict, detail, values, source)


def has_symbolic_sizes(args: tuple[Any, ...]) -> bool:
    """Whether sizes have names, which only an exported module says of its arguments."""
    shapes = [getattr(leaf, "shape", ()) for leaf in jax.tree.leaves(args)]
    return any(type(size) is not int for shape in shapes for size in shape)


def source_of(reading: Any, level: str) -> str:
    """Write what was read as source, and return what was verified of it."""
    with jax.enable_x64(reading.is_wide):
        try:
            return str(untrace.source(reading.jaxpr, level=level).report.strength)
        except Exception as error:
            return f"not generated: {said(error)}"


def by_structure(reading: Any) -> str:
    """Say where the modules differ of which the values are the same."""
    with jax.enable_x64(reading.is_wide):
        return structural_difference(reading.module, lowered_again(reading.jaxpr))


def flat_arguments(
    jitted: Any, args: tuple[Any, ...], is_all: bool
) -> list[Any] | None:
    """Return the arguments that the module has; None if there are only types."""
    leaves = jax.tree.leaves(args)
    if any(isinstance(x, jax.ShapeDtypeStruct) for x in leaves):
        return None
    if not is_all:
        kept = jitted.lower(*args)._lowering.compile_args.get("kept_var_idx")
        leaves = [x for i, x in enumerate(leaves) if kept is None or i in kept]
    return [as_plain(x) for x in leaves]


def as_plain(leaf: Any) -> Any:
    """Return an argument as the array that StableHLO has of it."""
    if jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(jax.numpy.asarray(leaf))


def values_of(reading: Any, given: list[Any] | None) -> str:
    """Run both modules and compare all bits."""
    if given is None:
        return "no values"
    with jax.enable_x64(reading.is_wide):
        again = lowered_again(reading.jaxpr)
        try:
            wanted = compiled_values(reading.module, given)
        except Exception:
            return "does not run"
        found = compiled_values(again, given)
    same = all(a.tobytes() == b.tobytes() for a, b in zip(wanted, found, strict=True))
    return "equal" if same else "different"


def of_harness(step: int, offset: int, how: How) -> Iterator[Outcome]:
    """Compare every `step`-th case of JAX's harness."""
    for case in harness.sampled(step, offset):
        if case.fullname in how.known:
            continue
        args = tuple(case.dyn_args_maker(np.random.RandomState(0)))
        yield compared(case.fullname, case.dyn_fun, args, how)


def of_programs(step: int, offset: int, how: How) -> Iterator[Outcome]:
    """Compare every `step`-th documented program, derivative or batch."""
    for case in programs.chosen(kinds="", step=step, offset=offset):
        if case.name in how.known:
            continue
        with case.context():
            yield compared(case.name, case.function, case.args, how)


def of_packages(step: int, offset: int, how: How) -> Iterator[Outcome]:
    """Compare every `step`-th program of the packages, each package in its own process."""
    command = ["-m", "tests.corpus.from_stablehlo", "--via", how.via]
    command += ["--values"] * how.is_valued + ["--source", how.level] * bool(how.level)
    cases = [c for c in chosen(step=step, offset=offset) if c.name not in how.known]
    for answer in apart.answers(command, cases, how.timeout_s):
        yield Outcome(*answer)


CORPORA = {"harness": of_harness, "programs": of_programs, "packages": of_packages}


def outcomes(name: str, step: int, offset: int, how: How) -> Iterator[Outcome]:
    """Compare every `step`-th case of a corpus; free compiled code from time to time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = CORPORA[name](step, offset, how)
        for position, outcome in enumerate(cases):
            if position % 300 == 299:
                jax.clear_caches()
            yield outcome


def recorded(name: str, options: argparse.Namespace, how: How) -> Iterator[Outcome]:
    """Yield the outcomes of a corpus; with `--records`, first those of earlier runs."""
    if not options.records:
        yield from outcomes(name, options.step, options.offset, how)
        return
    records = Path(options.records)
    lines = records.read_text().splitlines() if records.exists() else []
    earlier = [Outcome(*json.loads(line)) for line in lines]
    yield from earlier
    how = how._replace(known=frozenset(one.name for one in earlier))
    with records.open("a") as file:
        for outcome in outcomes(name, options.step, options.offset, how):
            file.write(json.dumps(outcome) + "\n")
            file.flush()
            yield outcome


def main() -> None:
    """Print what is not good, and counts of verdicts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", choices=CORPORA, action="append")
    parser.add_argument("--step", type=int, default=1, help="take every STEP-th case")
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--via", choices=["text", "names", "export"], default="text")
    parser.add_argument("--values", action="store_true", help="run all modules")
    parser.add_argument("--source", choices=["lax", "api"], default="", help="level")
    parser.add_argument("--timeout", type=float, default=300, help="seconds a program")
    parser.add_argument("--verbose", action="store_true", help="print every case")
    parser.add_argument("--records", help="append outcomes to this file; go on with it")
    parser.add_argument("--case", action="append", help="only this one of a package")
    options = parser.parse_args()
    how = How(options.via, options.values, options.source, options.timeout)
    del sys.argv[1:]  # some packages read the command line
    if options.case:
        apart.judged(options.case, lambda *case: compared(*case, how))
        return
    is_good = True
    for name in options.corpus or ("harness", "programs"):
        counts: collections.Counter[str] = collections.Counter()
        values: collections.Counter[str] = collections.Counter()
        sources: collections.Counter[str] = collections.Counter()
        start = time.time()
        with limited(0):
            for outcome in recorded(name, options, how):
                counts[outcome.verdict] += 1
                values[outcome.values] += 1
                sources[outcome.source.partition(":")[0]] += 1
                is_same = (
                    outcome.verdict.startswith(SAME_MODULE)
                    and outcome.values != "different"
                    and outcome.source in ("", "identical", "equivalent")
                )
                if options.verbose or not is_same:
                    print(*outcome, flush=True)
                is_good &= outcome.verdict in GOOD + NOT_OURS
                is_good &= outcome.values != "different"
                is_good &= not outcome.source.startswith("not generated")
        print(f"jax {jax.__version__}, {name}, {options.via}: {dict(counts)}", end="")
        for what, found in (("values", values), ("sources", sources)):
            found.pop("", None)
            print(f", {what} {dict(found)}" if found else "", end="")
        print(f" {time.time() - start:.0f} s")
    sys.exit(not is_good)


if __name__ == "__main__":
    main()
