"""Level "api": instances of registered classes come back with all that they hold."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import untrace

X = np.linspace(0.1, 1.0, 4, dtype=np.float32)


class State(NamedTuple):
    """Of a loop, with a counter that is a Python number at first."""

    i: Any
    x: Any
    limits: Any = (0, 3)


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["x", "rate"], meta_fields=[]
)
@dataclasses.dataclass
class Leaky:
    x: Any
    rate: Any = 0.5


def count(x):
    out = jax.lax.while_loop(
        lambda s: s.i < s.limits[1],
        lambda s: s._replace(i=s.i + 1, x=s.x * 2),
        State(0, x),
    )
    return out.x


def step(leaky):
    return Leaky(leaky.x * leaky.rate, 0.25)


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (count, "State(i=0, x=x, limits=(0, 3)),"),
        (lambda x: State(np.float32(2), x), "State(i=np.float32(2.0), x=x, limits="),
        (lambda x: jax.jit(step)(Leaky(x)), "(Leaky(x=x, rate=0.5))"),
        (lambda x: (step(step(Leaky(x))), 3), "rate=0.25)"),
        (lambda x: [Leaky(x, 1.0), Leaky(x, True), Leaky(x, 1)], "rate=True"),
    ],
)
def test_numbers_in_classes_are_written(function, line):
    src = untrace.source(function)(X)
    assert "from its equations" not in str(src), src.report.notes
    assert src.report.is_verified, str(src.report)
    assert line in str(src)
    expected, actual = jax.jit(function)(X), jax.jit(src.load())(X)
    pairs = zip(jax.tree.leaves(expected), jax.tree.leaves(actual), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)
