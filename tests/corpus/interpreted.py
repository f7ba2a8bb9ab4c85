"""Evaluating the corpora with a handler that does nothing gives the bits of JAX.

    python -m tests.corpus.interpreted --step 1

The reference is the function itself under `jax.disable_jit()`, op by op; or its jaxpr as
JAX evaluates it, where Python computed with numbers that are arrays when it is traced.
"""

from __future__ import annotations

import argparse
import collections
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tests.corpus import harness, programs
from untrace.interpreters.evaluate import Step
from untrace.interpreters.interpret import interpret


class Outcome(NamedTuple):
    """What came of one case: "equal", "different", "error", or why it was left out."""

    name: str
    verdict: str
    detail: str = ""


def as_it_is(step: Step, *operands: Any) -> Any:
    """Evaluate an equation."""
    return step(*operands)


def compared(name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Outcome:
    """Compare one function at given arguments."""
    args = jax.tree.map(as_array, args)
    try:
        jaxpr = jax.make_jaxpr(function)(*args)
    except Exception as error:  # what JAX itself cannot trace is not ours
        return Outcome(name, "untraceable", f"{type(error).__name__}: {error}"[:200])
    try:
        with jax.disable_jit():
            wanted = jax.block_until_ready(function(*args))
    except Exception as error:
        return Outcome(name, "no reference", f"{type(error).__name__}: {error}"[:200])
    try:
        found = interpret(function, as_it_is)(*args)
    except Exception as error:
        return Outcome(name, "error", f"{type(error).__name__}: {error}"[:500])
    differs = difference(wanted, found)
    if differs:
        with jax.disable_jit():
            outputs = jax.core.eval_jaxpr(
                jaxpr.jaxpr, jaxpr.consts, *jax.tree.leaves(args)
            )
        differs = difference(outputs, jax.tree.leaves(found))
    return Outcome(name, "different" if differs else "equal", differs)


def difference(wanted: Any, found: Any) -> str:
    """Say what differs between two trees of arrays; nothing if all bits are the same."""
    one, other = jax.tree.flatten(wanted), jax.tree.flatten(found)
    if one[1] != other[1]:
        return f"{one[1]}\n{other[1]}"
    for i, (a, b) in enumerate(zip(one[0], other[0])):
        if bits(a) != bits(b):
            return f"leaf {i}: {a!r} {b!r}"[:400]
    return ""


def as_array(leaf: Any) -> Any:
    """An array of JAX: Python and NumPy would compute in their own ways."""
    is_plain = isinstance(leaf, float | complex | np.ndarray | np.generic)
    return jnp.asarray(leaf) if is_plain else leaf


def bits(value: Any) -> Any:
    """Return shape, type and content of an array."""
    if jax.dtypes.issubdtype(getattr(value, "dtype", None), jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    array = np.asarray(value)
    if not isinstance(value, jax.Array | np.ndarray | np.generic):
        array = np.asarray(jnp.asarray(value))
    return array.shape, str(array.dtype), array.tobytes()


COMPILED = frozenset(
    {"bicgstab", "cg", "gmres", "kalman_filter", "random_ball", "random_old_ball"}
)
"""Programs without a reference: solvers and a sampler that JAX compiles even under
`disable_jit`, and a loop that computes with numbers of Python."""


def of_programs(step: int) -> Iterator[Outcome]:
    """Run every `step`-th documented program."""
    for name in sorted(programs.PROGRAMS)[::step]:
        program = programs.PROGRAMS[name]
        if name not in COMPILED:
            with program.context():
                yield compared(name, program.function, program.args)


def of_harness(step: int) -> Iterator[Outcome]:
    """Run every `step`-th case of JAX's harness."""
    for position, case in enumerate(harness.sampled(step)):
        if position % 500 == 499:
            jax.clear_caches()
        args = case.dyn_args_maker(np.random.RandomState(0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield compared(case.fullname, case.dyn_fun, tuple(args))


def main() -> None:
    """Print counts of verdicts and what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step", type=int, default=1, help="take every STEP-th case")
    counts: collections.Counter[str] = collections.Counter()
    step = parser.parse_args().step
    for outcome in (*of_programs(step), *of_harness(step)):
        counts[outcome.verdict] += 1
        if outcome.verdict in ("different", "error"):
            print(outcome.verdict, outcome.name, outcome.detail)
    print(dict(counts))
    sys.exit(bool(counts["different"] or counts["error"]))


if __name__ == "__main__":
    main()
