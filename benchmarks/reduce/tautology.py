"""Plant a cause in random programs, reduce them, and look whether the cause is left.

    python -m benchmarks.reduce.tautology [WORD ...] [--seeds N] [--first N] [--max-seconds N]

Random programs hold one equation that fails because of their inputs. A failure that is
left without it would be one that every program can be cut down to. For each predicate:
in how many results the cause is left, how many fail no more once ones stand for what it
makes, equations left in the median and at most, runs in the median, and the time. What
does not hold is printed below the table, and the status is 1 then.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import untrace
from benchmarks.reduce.planted import checked_rate
from untrace import keep
from untrace.errors import KeepError
from untrace.ir import all_equations
from untrace.reduction.applying import apply
from untrace.reduction.edits import Edits, Held
from untrace.reduction.program import Program, open_blocks
from untrace.reduction.trials import Judge

N = 4
STEPS: tuple[Callable[..., Any], ...] = (
    lambda x, rng: jnp.tanh(x),
    lambda x, rng: jnp.sin(x) * 0.5,
    lambda x, rng: x @ rng.normal(size=(N, N)).astype(np.float32) / N,
    lambda x, rng: x - x.mean(0),
    lambda x, rng: jnp.where(x > 0, x, 0.1 * x),
    lambda x, rng: jax.jit(jnp.cos)(x),
    lambda x, rng: jnp.concatenate([x[1:], x[:1]]),
    lambda x, rng: jax.lax.scan(lambda c, row: (c + row, c), x[0], x)[1] / N,
    lambda x, rng: jnp.sort(x, axis=0),
    lambda x, rng: x.at[0].add(1.0),
)
"""Bounded on bounded inputs, so that only the cause fails."""

AFTER = (STEPS[6], STEPS[9], lambda x, rng: x * 0.5, lambda x, rng: x.T)
"""Hide nothing."""


def _stuck(x: Any) -> Any:
    """Loop until a number is reached, which is never if it is negative."""
    start = (x[0, 0] * 0, x[0, 0])
    ends = jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + c[1], c[1]), start)
    return ends[0] + x


CAUSES: dict[str, tuple[Any, list[tuple[str, Callable[[Any], Any]]]]] = {
    "nan": (
        keep.nan(),
        [
            ("log", lambda x: jnp.log(x)),
            ("sqrt", lambda x: jnp.sqrt(x)),
            ("div", lambda x: (x - x[0, 0]) / jnp.maximum(x, 0.0)),
        ],
    ),
    "nan of the gradient": (
        keep.nan(under="grad"),
        [("sqrt", lambda x: jnp.sqrt(jnp.maximum(x, 0.0)))],
    ),
    "inf": (
        keep.inf(),
        [
            ("exp", lambda x: jnp.exp(-x * 200)),
            ("div", lambda x: 1.0 / jnp.maximum(x, 0.0)),
        ],
    ),
    "differs": (
        keep.differs(b="float64", rtol=0.1),
        [("cos", lambda x: (1 - jnp.cos(x * 1e-4)) * 1e9)],
    ),
    "check": (
        keep.check("(outputs[-1] > 1e3).any()"),
        [("exp", lambda x: jnp.exp(-x * 20))],
    ),
    "raises": (
        keep.raises(),
        [("checked_rate", lambda x: checked_rate(x * -2000.0))],
    ),
    "hangs": (keep.hangs(1.0), [("while", _stuck)]),
}
"""For each word a predicate, and causes by the name of the primitive that fails."""


def planted(seed: int, cause: Callable[[Any], Any]) -> tuple[Callable[..., Any], Any]:
    """Return a random program with a cause in its middle, and its input."""
    rng = np.random.default_rng(seed)
    chosen = [STEPS[i] for i in rng.integers(0, len(STEPS), size=8)]
    after = [AFTER[i] for i in rng.integers(0, len(AFTER), size=4)]

    def program(x: Any) -> Any:
        y = x
        for i, step in enumerate(chosen):
            y = step(y, np.random.default_rng(i))
        y = y * 0.1 + cause(x)
        for step in after:
            y = step(y, None)
        return y

    x = rng.uniform(0.5, 1.0, size=(N, N)).astype(np.float32)
    x[0, 0] = -1.0
    return program, x


def without(program: Program, name: str) -> Program | None:
    """Return a program in which ones stand for what the cause makes."""
    causes = [
        eqn
        for block in open_blocks(program.block)
        for eqn in block.equations
        if eqn.name == name
    ]
    replaced = {
        result: Held(np.ones(result.aval.shape, result.aval.dtype))
        for eqn in causes
        for result in eqn.results
        if result is not None
    }
    return apply(program, Edits(replaced=replaced))


@dataclass(frozen=True)
class Found:
    """What is left of one random program; `left` are the primitives of its equations."""

    seed: int
    left: tuple[str, ...]
    has_cause: bool
    needs_cause: bool
    runs: int
    seconds: float
    refused: str = ""


def measure(word: str, seed: int, max_seconds: float | None = None) -> Found:
    """Reduce one random program."""
    predicate, causes = CAUSES[word]
    name, cause = causes[seed % len(causes)]
    program, x = planted(seed, cause)
    started = time.monotonic()
    try:
        shrink = untrace.reduce(program, keep=predicate, max_seconds=max_seconds)
        made = shrink(x)
    except KeepError as error:
        seconds = time.monotonic() - started
        return Found(seed, (), False, False, 0, seconds, str(error).partition("\n")[0])
    seconds = time.monotonic() - started
    left = tuple(eqn.name for eqn in all_equations(made.program.block))
    removed = without(made.program, name)
    needs = removed is None or not Judge(made.keep).judge_program(removed)
    has_input = bool(made.program.values) or not made.keep.depends_on_values
    has_cause = name in left and has_input
    return Found(seed, left, has_cause, needs, made.stats.runs, seconds)


def _table(words: list[str], seeds: range, max_seconds: float | None) -> Iterator[str]:
    heads = ("predicate", "programs", "cause left", "needed", "equations", "runs", "s")
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    wrong: list[str] = []
    for word in words:
        found = [measure(word, seed, max_seconds) for seed in seeds]
        kept = [one for one in found if not one.refused] or found
        sizes = [len(one.left) for one in kept]
        cells = (
            f"{word}",
            f"{len(found)}",
            f"{sum(one.has_cause for one in found)}",
            f"{sum(one.needs_cause for one in found)}",
            f"{statistics.median(sizes):g}, at most {max(sizes)}",
            f"{statistics.median(one.runs for one in kept):g}",
            f"{statistics.median(one.seconds for one in kept):.0f}",
        )
        yield "| " + " | ".join(cells) + " |"
        for one in found:
            if not one.has_cause or not one.needs_cause:
                what = one.refused or " ".join(one.left)
                wrong.append(f"{word}, seed {one.seed}: {what}")
    yield from wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--max-seconds", type=float)
    options = parser.parse_args()
    words = options.words or list(CAUSES)
    seeds = range(options.first, options.first + options.seeds)
    is_right = True
    with np.errstate(all="ignore"):
        for line in _table(words, seeds, options.max_seconds):
            is_right &= line.startswith("|")
            print(line, flush=True)
    sys.exit(not is_right)


if __name__ == "__main__":
    main()
