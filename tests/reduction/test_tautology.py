"""The cause that was planted is in the result, and without it there is no failure.

Random programs hold one equation that fails because of their inputs. A failure that is
left without it would be one that every program can be cut down to.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace import keep
from untrace.reduction.applying import apply
from untrace.reduction.edits import Edits, Held
from untrace.reduction.program import all_equations, open_blocks
from untrace.reduction.trials import Judge

N = 4
STEPS = (
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


def _stuck(x):
    """Loop until a number is reached, which is never if it is negative."""
    start = (x[0, 0] * 0, x[0, 0])
    ends = jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + c[1], c[1]), start)
    return ends[0] + x


CAUSES = {
    "nan": (
        keep.nan(),
        [
            ("log", lambda x: jnp.log(x)),
            ("sqrt", lambda x: jnp.sqrt(x)),
            ("div", lambda x: (x - x[0, 0]) / jnp.maximum(x, 0.0)),
        ],
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
    "hangs": (keep.hangs(4.0), [("while", _stuck)]),
}


def planted(seed, cause):
    """Return a random program with a cause in its middle, and its input."""
    rng = np.random.default_rng(seed)
    chosen = [STEPS[i] for i in rng.integers(0, len(STEPS), size=8)]
    after = [AFTER[i] for i in rng.integers(0, len(AFTER), size=4)]

    def program(x):
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


def without(program, name):
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


def check_one(word, seed):
    predicate, causes = CAUSES[word]
    name, cause = causes[seed % len(causes)]
    program, x = planted(seed, cause)
    with np.errstate(all="ignore"):
        made = untrace.reduce(program, keep=predicate)(x)
    left = [eqn.name for eqn in all_equations(made.program.block)]
    assert name in left, (word, seed, left)
    assert made.program.values, (word, seed, left)
    judge = Judge(made.keep)
    removed = without(made.program, name)
    assert removed is not None
    assert not judge.judge_program(removed), (word, seed, left)


@pytest.mark.parametrize("word", ["nan", "differs"])
def test_the_cause_is_in_the_result(word):
    check_one(word, 0)


@pytest.mark.corpus
@pytest.mark.parametrize("word", list(CAUSES))
def test_the_cause_is_in_the_results_of_fifty(word):
    for seed in range(50):
        check_one(word, seed)
