"""Evaluating the corpora with a handler that does nothing gives the bits of JAX.

    python -m tests.corpus.interpreted --corpus harness --step 40
    python -m tests.corpus.interpreted --corpus packages --timeout 60 --verbose
    python -m tests.corpus.interpreted --corpus shortened

The reference is the function itself under `jax.disable_jit()`, where JAX runs loops turn
by turn. Python and NumPy then compute with numbers that are arrays when the function is
traced, and some of JAX's functions compile all the same; where the results differ from
that, the reference is the traced program, each of its equations by itself (`op_by_op`).
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import signal
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.readability import corpus as readability
from tests.corpus import harness, programs
from tests.corpus.op_by_op import op_by_op
from tests.corpus.packages import run as packages
from tests.corpus.packages.cases import Call, Case
from tests.corpus.packages.judge import flat
from tests.corpus.shortened import shortened
from untrace.interpreters.evaluate import Step
from untrace.interpreters.interpret import interpret

TURNS = 2
"""Of loops that are shortened: the first begins with what the loop is given, the second
with what it made."""

GOOD = ("equal", "equal to its jaxpr")
NOT_OURS = ("untraceable", "no reference", "no values", "not installed", "no time")


class Outcome(NamedTuple):
    """What came of one case: one of `GOOD`, of `NOT_OURS`, "different" or "error".

    Op by op, some programs take hours, and `no time` says so.
    """

    name: str
    verdict: str
    detail: str = ""


def as_it_is(step: Step, *operands: Any) -> Any:
    """Evaluate an equation."""
    return step(*operands)


def compared(
    name: str, function: Callable[..., Any], args: tuple[Any, ...], turns: int = 0
) -> Outcome:
    """Compare one function at given arguments; `turns`: with its loops shortened."""
    args = jax.tree.map(as_array, args)
    try:
        jaxpr = jax.make_jaxpr(function)(*args)
    except Exception as error:  # what JAX itself cannot trace is not ours
        return Outcome(name, "untraceable", said(error))
    leaves = jax.tree.leaves(args)
    if any(isinstance(x, jax.ShapeDtypeStruct) for x in leaves):
        return Outcome(name, "no values")
    if turns:
        jaxpr = shortened(jaxpr, leaves, turns)
        found, ours = _tried(lambda: interpret(jaxpr, as_it_is)(*leaves))
    else:
        found, ours = _tried(lambda: interpret(function, as_it_is)(*args))
        with contextlib.suppress(Exception), jax.disable_jit():
            if ours is None and not difference(function(*args), found):
                return Outcome(name, "equal")
    wanted, theirs = _tried(lambda: op_by_op(jaxpr, leaves))
    if ours is not None:
        # Such as an operation that CPUs do not have, or a check of the program's own.
        verdict = "no reference" if type(theirs) is type(ours) else "error"
        return Outcome(name, verdict, said(ours))
    if theirs is not None:
        return Outcome(name, "error", f"of the reference: {said(theirs)}")
    differs = difference(wanted, jax.tree.leaves(found))
    return Outcome(name, "different" if differs else "equal to its jaxpr", differs)


def _tried(run: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """Return what is computed, and the exception that ended it."""
    try:
        return jax.block_until_ready(run()), None
    except Exception as error:
        return None, error


class OutOfTime(BaseException):
    """A case took too long; no `except Exception` of a library may keep it."""


@contextlib.contextmanager
def limited(seconds: float) -> Generator[None, None, None]:
    """Raise `OutOfTime` if what is inside takes longer, on the main thread; 0: never."""

    def stop(*_: Any) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def said(error: Exception) -> str:
    """Return the class and the start of the message of an exception."""
    return f"{type(error).__name__}: {error}"[:300]


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


Run = tuple[str, Callable[[], Outcome]]
"""The name of a case, and what runs it."""


def of_programs(step: int, offset: int = 0, kinds: str = "base") -> Iterator[Run]:
    """Yield every `step`-th documented program, or all variants if `kinds` is empty."""
    for case in programs.chosen(kinds=kinds, step=step, offset=offset):

        def run(case: programs.Program = case) -> Outcome:
            with case.context():
                return compared(case.name, case.function, case.args)

        yield case.name, run


def of_variants(step: int, offset: int) -> Iterator[Run]:
    """Yield every `step`-th of the documented programs, their derivatives and batches."""
    return of_programs(step, offset, "")


def of_harness(step: int, offset: int) -> Iterator[Run]:
    """Yield every `step`-th case of JAX's harness."""
    return _of_cases(harness.sampled(step, offset))


def of_groups(step: int, offset: int) -> Iterator[Run]:
    """Yield a case of every `step`-th group of JAX's harness."""
    return _of_cases(harness.sampled(len(harness.cases()))[offset::step])


def _of_cases(cases: Iterable[Any]) -> Iterator[Run]:
    for case in cases:

        def run(case: Any = case) -> Outcome:
            args = case.dyn_args_maker(np.random.RandomState(0))
            return compared(case.fullname, case.dyn_fun, tuple(args))

        yield case.fullname, run


def of_readability(step: int, offset: int) -> Iterator[Run]:
    """Yield every `step`-th program of the benchmark of readability."""
    for name in readability.names()[offset::step]:

        def run(name: str = name) -> Outcome:
            try:
                program = readability.load(name)
            except readability.MissingError as error:
                return Outcome(name, "not installed", said(error))
            return of_arrays(name, Call(program.function, program.args))

        yield name, run


def of_packages(step: int, offset: int, turns: int = 0) -> Iterator[Run]:
    """Yield every `step`-th program of the packages; `turns`: with shortened loops."""
    for case in packages.chosen(step=step, offset=offset):

        def run(case: Case = case) -> Outcome:
            with jax.enable_x64(case.x64):
                try:
                    call = case.make()
                    jax.block_until_ready(call.function(*call.args, **call.kwargs))
                except Exception as error:
                    return Outcome(case.name, "not installed", said(error))
                return of_arrays(case.name, call, turns)

        yield case.name, run


def of_arrays(name: str, call: Call, turns: int = 0) -> Outcome:
    """Compare a function of the arrays in what it is called with: all else is fixed."""
    function, args = flat(call, call.function)
    return compared(name, function, tuple(args), turns)


def of_shortened(step: int, offset: int) -> Iterator[Run]:
    """Yield every `step`-th program of the packages; loops have `TURNS` turns at most."""
    return of_packages(step, offset, TURNS)


CORPORA: dict[str, Callable[[int, int], Iterator[Run]]] = {
    "harness": of_harness,
    "groups": of_groups,
    "programs": of_variants,
    "readability": of_readability,
    "packages": of_packages,
    "shortened": of_shortened,
}


def outcomes(
    name: str, step: int, offset: int = 0, timeout: float = 0
) -> Iterator[Outcome]:
    """Run every `step`-th case of a corpus; free compiled code from time to time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for position, (case, run) in enumerate(CORPORA[name](step, offset)):
            if position % 300 == 299:
                jax.clear_caches()
            if not timeout:
                yield run()
                continue
            try:
                with limited(timeout):
                    outcome = run()
            except OutOfTime:
                outcome = Outcome(case, "no time", f"{timeout:.0f} s")
            yield outcome


def main() -> None:
    """Print what differs, and counts of verdicts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", choices=CORPORA, action="append")
    parser.add_argument("--step", type=int, default=1, help="take every STEP-th case")
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=0, help="seconds per case")
    parser.add_argument("--verbose", action="store_true", help="print every case")
    options = parser.parse_args()
    is_good = True
    for name in options.corpus or CORPORA:
        counts: collections.Counter[str] = collections.Counter()
        for outcome in outcomes(name, options.step, options.offset, options.timeout):
            counts[outcome.verdict] += 1
            if options.verbose or outcome.verdict not in GOOD:
                print(*outcome, flush=True)
            is_good &= outcome.verdict in GOOD + NOT_OURS
        print(f"jax {jax.__version__}, {name}: {dict(counts)}", flush=True)
    sys.exit(not is_good)


if __name__ == "__main__":
    main()
