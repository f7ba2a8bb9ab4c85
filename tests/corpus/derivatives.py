"""Transformations of loaded functions: `jit`, `vmap`, `jvp`, `grad` and `grad` of `grad`.

`python -m tests.corpus.derivatives` recovers every program of the corpora at level
`"api"`, loads what comes out, transforms both functions and compares them: by equations,
else as data flow, else by value. It prints a table of transformations and outcomes. What
JAX refuses for the original is not counted.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import untrace
from benchmarks.readability import corpus
from benchmarks.readability.scoring import rounding_limit
from tests.corpus import programs as documented
from tests.corpus.registry import Program
from tests.verification.programs import PROGRAMS as VARIED
from tests.verification.saved_programs import SAVED
from untrace import jaxapi
from untrace.verification.compare import compare
from untrace.verification.equivalence import equivalent

GOOD = ("identical", "equivalent", "values", "refused", "known")
OUTCOMES = (*GOOD, "own classes", "not run", "raises", "DIFFERENT")
KNOWN = {
    # `fori_loop` over a number of Python is a `scan` when it is differentiated; what was
    # recorded is the loop over a traced number.
    ("func_while", "lax"): ("grad", "grad of grad"),
}
PLAIN_NODES = (tuple, list, dict, type(None))
Transformed = dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]


@dataclass(frozen=True)
class Outcome:
    """What came of one transformation of one program."""

    name: str
    kind: str
    verdict: str
    detail: str = ""


def transformed(program: Program) -> Transformed:
    """Return transformations of a program, and what the transformed functions take."""
    # By a lambda: the name of a jitted function stands in its equation.
    jitted = jax.jit(lambda *args: program.function(*args))
    made: Transformed = {"jit": (jitted, program.args)}
    if not program.variants:
        return made
    for variant in documented.variants(program):
        kind = variant.name.removeprefix(f"{program.name}:")
        if kind in ("vmap", "jvp", "grad"):
            made[kind] = (variant.function, variant.args)
    if "grad" in made:
        gradient, floats = made["grad"]

        def steepness(*floats: Any) -> Any:
            return sum(jnp.sum(jnp.abs(g) ** 2) for g in gradient(*floats))

        made["grad of grad"] = (jax.grad(steepness, tuple(range(len(floats)))), floats)
    return made


def run(program: Program, level: str = "api") -> list[Outcome]:
    """Recover and load a program; compare each transformation of both functions."""
    with (
        warnings.catch_warnings(),
        program.context(),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        return list(_outcomes(program, level))


def _outcomes(program: Program, level: str) -> Iterator[Outcome]:
    try:
        jax.make_jaxpr(program.function)(*program.args)
    except Exception:  # what JAX cannot trace is no program
        return
    src = untrace.source(program.function, level=level)(*program.args)
    if not src.report.is_verified:
        yield Outcome(program.name, "source", "DIFFERENT", str(src.report))
        return
    got = transformed(replace(program, function=src.load()))
    for kind, (function, args) in transformed(program).items():
        if kind in KNOWN.get((program.name, level), ()):
            yield Outcome(program.name, kind, "known")
            continue
        verdict, detail = _compare(function, got[kind][0], args)
        if verdict == "raises" and _has_classes(program.args):
            verdict = "own classes"
        yield Outcome(program.name, kind, verdict, detail)


def _compare(function: Any, other: Any, args: tuple[Any, ...]) -> tuple[str, str]:
    try:
        expected = jax.make_jaxpr(function)(*args)
        if documented.refused_by_jax(expected):
            return "refused", ""
    except Exception:  # then the recovered one need not have it, either
        return "refused", ""
    try:
        actual = jax.make_jaxpr(other)(*args)
    except Exception as error:  # the failure that is looked for
        return "raises", f"{type(error).__name__}: {error}"
    if compare(expected, actual) is None:
        return "identical", ""
    parting = equivalent(expected, actual)
    if parting is None:
        return "equivalent", ""
    return _compare_values(expected, actual, args, str(parting))


def _compare_values(
    expected: Any, actual: Any, args: tuple[Any, ...], parting: str
) -> tuple[str, str]:
    leaves = jax.tree.leaves(args)
    try:
        wanted = jax.block_until_ready(jax.jit(jaxapi.as_function(expected))(*leaves))
    except Exception as error:  # the original does not run, either
        return "not run", f"{type(error).__name__}: {error}"
    try:
        got = jax.block_until_ready(jax.jit(jaxapi.as_function(actual))(*leaves))
    except Exception as error:  # the failure that is looked for
        return "raises", f"{type(error).__name__}: {error}"
    if len(wanted) != len(got):
        return "DIFFERENT", f"{len(got)} results, not {len(wanted)}"
    errors = list(filter(None, map(difference, wanted, got)))
    if errors:
        spreads = _spreads(expected, leaves, wanted)
        errors = list(filter(None, map(difference, wanted, got, spreads)))
    return ("DIFFERENT", f"{errors[0]}\n{parting}") if errors else ("values", parting)


def _spreads(expected: Any, leaves: list[Any], wanted: list[Any]) -> list[float]:
    """Return how far results move when each input moves by one rounding.

    The order of additions, in which derivatives of equal programs may differ, can change
    a result by as much.
    """
    function = jax.jit(jaxapi.as_function(expected))
    moved = [np.zeros(())] * len(wanted)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        near = function(*[_next_to(leaf, rng) for leaf in leaves])
        moved = [
            np.maximum(most, np.max(np.abs(one - other), initial=0.0))
            if jnp.issubdtype(one.dtype, jnp.inexact)
            else most
            for most, one, other in zip(moved, wanted, near)
        ]
    return [4 * float(most) for most in moved]


def _next_to(leaf: Any, rng: np.random.Generator) -> Any:
    if jaxapi.is_key(leaf) or np.asarray(leaf).dtype not in (np.float32, np.float64):
        return leaf
    value = np.asarray(leaf)
    target = np.where(rng.random(value.shape) < 0.5, -np.inf, np.inf)
    return np.nextafter(value, target.astype(value.dtype))


def difference(wanted: Any, got: Any, spread: float = 0.0) -> str:
    """Say by how much two arrays differ that should not by more than rounding, or "".

    `spread` is how far rounding of the inputs moves the result, where that is known.
    """
    if jaxapi.is_key(wanted):
        wanted, got = jax.random.key_data(wanted), jax.random.key_data(got)
    if (wanted.dtype, wanted.shape) != (got.dtype, got.shape):
        return f"{got.dtype}{got.shape}, not {wanted.dtype}{wanted.shape}"
    if not jnp.issubdtype(wanted.dtype, jnp.inexact):
        return "" if np.array_equal(wanted, got) else "whole numbers differ"
    finite = jnp.isfinite(wanted)
    if not np.array_equal(wanted[~finite], got[~finite], equal_nan=True):
        return "NaNs or infinities differ"
    if not finite.any():
        return ""
    error = jnp.max(jnp.abs(wanted - got)[finite])
    limit = jnp.maximum(rounding_limit(wanted[finite]), spread)
    return "" if error <= limit else f"differs by {error}, not {limit}"


def _has_classes(tree: Any) -> bool:
    """Whether a tree has containers of classes that a file has stand-ins for."""
    if type(tree) in PLAIN_NODES:
        parts = list(tree.values()) if isinstance(tree, dict) else list(tree or ())
        return any(map(_has_classes, parts))
    return not jax.tree_util.all_leaves([tree])


def chosen(only: str = "", step: int = 1, offset: int = 0) -> list[Program]:
    """Choose programs whose name contains `only`, from all corpora."""
    cases = list(documented.PROGRAMS.values())
    cases += [Program(f"varied {n}", f, a) for n, (f, a) in {**VARIED, **SAVED}.items()]
    for name in corpus.names():
        if only not in f"readable {name}":
            continue  # frameworks take long to import
        try:
            program = corpus.load(name)
        except corpus.MissingError:
            continue
        cases.append(Program(f"readable {name}", program.function, program.args))
    return [case for case in cases if only in case.name][offset::step]


def table(results: list[Outcome]) -> str:
    """Lay out a table in Markdown: transformations, and what came of them."""
    counts: dict[str, collections.Counter[str]] = {}
    for outcome in results:
        counts.setdefault(outcome.kind, collections.Counter())[outcome.verdict] += 1
    lines = [f"| transformation | {' | '.join(OUTCOMES)} |"]
    lines.append("|---" * (len(OUTCOMES) + 1) + "|")
    for kind, counter in counts.items():
        cells = [f"{counter[verdict]:,}" for verdict in OUTCOMES]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


def is_bad(outcome: Outcome) -> bool:
    """Whether a loaded function lacks what its original has."""
    return outcome.verdict in ("raises", "DIFFERENT")


def main() -> None:
    """Run the corpora and print the table; exit 1 if a transformation differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("only", nargs="?", default="", help="part of a program's name")
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--level", choices=("api", "lax"), default="api")
    options = parser.parse_args()
    logging.disable(logging.ERROR)
    start = time.time()
    results: list[Outcome] = []
    cases = chosen(options.only, options.step, options.offset)
    for position, case in enumerate(cases):
        for outcome in run(case, options.level):
            results.append(outcome)
            if outcome.verdict not in GOOD:
                print("-", outcome, file=sys.stderr, flush=True)
        if position % 50 == 49:
            jax.clear_caches()
    bad = [outcome for outcome in results if is_bad(outcome)]
    print(f"jax {jax.__version__}, {len(cases)} programs, {time.time() - start:.0f} s")
    print(table(results))
    for outcome in bad:
        print(f"- {outcome.name} {outcome.kind}: {outcome.verdict}: {outcome.detail}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
