"""Where one merge of functions is wrong, only that one is undone."""

import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace import recorded
from untrace.lifting.recorded.functions.merging_again import MAX_TRIALS, merge_again
from untrace.lifting.recorded.unify import numbers
from untrace.stages import TimeIsOver

X = np.linspace(0.1, 1.0, 16, dtype=np.float32).reshape(4, 4)


def rolled(x, by):
    return jnp.roll(x, by[0], axis=0) * jnp.sin(x) + jnp.cos(x) ** by[0]


def turned(x, by):
    return jnp.roll(x, by[0], axis=1) * jnp.tanh(x) + jnp.exp(x) ** by[0]


def powered(x, by):
    return jnp.flip(x, axis=1) ** by[0] * jnp.tan(x) + jnp.sqrt(x) ** by[0]


def program(x):
    y = powered(rolled(rolled(x, [2]), [3]), [2])
    return turned(turned(powered(y, [3]), [2]), [4])


@pytest.mark.parametrize("bad", ["rolled", "turned", "powered"])
def test_functions_that_are_not_to_blame_stay_merged(bad, monkeypatch):
    n_attempts = 0
    name, attempt = numbers._name, recorded._attempt

    def name_wrongly(function, merged):
        name(function, merged)
        if function.name == bad:
            function.lines = [f"x = x + 1; {line}" for line in function.lines]

    def counted(*args):
        nonlocal n_attempts
        n_attempts += 1
        return attempt(*args)

    monkeypatch.setattr(numbers, "_name", name_wrongly)
    monkeypatch.setattr(recorded, "_attempt", counted)
    src = untrace.source(program)(X)
    assert src.report.strength == "identical", str(src.report)
    names = {"rolled", "turned", "powered"}
    assert {n for n in names if f"def {n}_2(" in str(src)} == {bad}
    assert n_attempts == 3


def test_what_was_proved_stays_when_the_time_is_over(monkeypatch):
    """Here functions that are merged are wrong, and it is over before others are."""
    name, attempt, made = numbers._name, recorded._attempt, []

    def name_wrongly(function, merged):
        name(function, merged)
        function.lines = [f"x = x + 1; {line}" for line in function.lines]

    def timed(*args):
        if any(source.report.is_verified for source, _ in made):
            raise TimeIsOver
        made.append(attempt(*args))
        return made[-1]

    monkeypatch.setattr(numbers, "_name", name_wrongly)
    monkeypatch.setattr(recorded, "_attempt", timed)
    src = untrace.source(program)(X)
    assert src.report.strength == "identical" and "def rolled_2(" in str(src)
    assert not src.report.notes


@pytest.mark.parametrize("wrong", [{"c"}, {"a", "h"}, {"a", "b"}, set("abcdefgh")])
@pytest.mark.parametrize("suspects", [set(), {"a"}, {"c", "h"}])
def test_names_are_tried_in_halves(wrong, suspects):
    tried = []

    def is_proved(names):
        tried.append((not names & wrong, names))
        return tried[-1][0]

    merge_again(set("abcdefgh"), suspects, is_proved)
    assert len(tried) <= MAX_TRIALS
    best = max((len(names) for good, names in tried if good), default=0)
    last = next((names for good, names in reversed(tried) if good), set())
    assert len(last) == best
    if len(wrong) == 1:
        assert best == 7
