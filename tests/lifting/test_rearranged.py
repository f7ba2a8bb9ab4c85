"""Trees that libraries split, put together and fill with numbers come back as trees."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.lifting.installed import library

FILTERS = """
from typing import Any, NamedTuple

class State(NamedTuple):
    position: Any
    velocity: Any
    mass: Any
    count: Any
    flags: Any
    label: Any

def is_none(leaf):
    return leaf is None

def partition(tree):
    def is_float(leaf):
        return jnp.issubdtype(leaf.dtype, jnp.inexact)
    first = jax.tree.map(lambda leaf: leaf if is_float(leaf) else None, tree)
    second = jax.tree.map(lambda leaf: None if is_float(leaf) else leaf, tree)
    return first, second

def _combine(first, second):
    return second if first is None else first

def combine(first, second):
    return jax.tree.map(_combine, first, second, is_leaf=is_none)

def advance(state):
    position = state.position + state.velocity * state.mass
    return state._replace(position=jnp.sin(position), count=state.count + 1)

def run(state):
    floats, others = partition(state)

    def body(_, floats):
        whole = combine(floats, others)
        return partition(advance(whole))[0]

    floats = jax.lax.fori_loop(0, 3, body, floats)
    return combine(floats, others)

def start(x):
    state = State(position=x, velocity=x * 2, mass=1.0, count=0, flags=True, label=x + 1)
    return jax.tree.map(jnp.array, state)

def narrow(x):
    full = State(x, x + 1, x * 2, None, None, None)
    part = State(None, x, None, x + 2, None, None)
    return jnp.sin(full.position) * part.count + part.velocity, full, part
"""


class State(NamedTuple):
    position: np.ndarray
    velocity: np.ndarray
    mass: np.ndarray
    count: np.ndarray
    flags: np.ndarray
    label: np.ndarray


X = np.ones(3, np.float32)
STATE = State(X, X, X, np.int32(0), np.ones(3, bool), X)


def recover(function, *args):
    src = untrace.source(function)(*args)
    assert src.report.is_verified, str(src.report)
    assert "from its equations" not in str(src), str(src)
    return str(src)


def test_trees_are_split_and_put_together():
    text = recover(FILTERED.run, FILTERED.State(*STATE))
    assert "floats = inexact(state)" in text
    assert "others = exact(state)" in text
    assert "whole = combine(floats, others)" in text
    assert "return combine(" in text


def test_small_trees_are_built_where_they_are_used():
    def f(x, n):
        floats, others = FILTERED.partition((x, n))
        return FILTERED.combine(floats, others)

    text = recover(f, X, np.int32(1))
    assert "combine" not in text and "return x, n" in text


def test_numbers_in_a_tree_become_arrays_with_it():
    text = recover(lambda x: FILTERED.start(x), X)
    assert "jax.tree.map(\n        jnp.array," in text
    assert "mass=1.0, count=0, flags=True" in text


def test_objects_of_one_class_have_one_stand_in():
    text = recover(lambda x: FILTERED.narrow(x), X)
    assert text.count("(NamedTuple):") == 1
    assert "    mass: Any = None\n" in text


def test_what_a_function_needs_from_outside_keeps_its_name_to_its_last_use():
    layers = library("""
class Box:
    def __init__(self, held):
        self.held = held

    def __call__(self, y):
        def inner(y):
            first = jnp.cos(self.held[0]) * y
            x = jnp.sin(first) + jnp.tan(first) * jnp.exp(first)
            x = jnp.tanh(x) + jnp.cosh(x) * jnp.sinh(x) - jnp.log1p(x)
            x = jnp.arctan(x) * x
            return x / self.held[1] + x**2
        return inner(y) * inner(y + 1)
""")

    def f(x, y):
        return layers.Box(x)(y)

    recover(f, (X, X), X)


def test_a_tree_of_symbolic_zeros():
    def f(state):
        return FILTERED.passed(state)

    text = recover(f, FILTERED.State(*STATE))
    assert "return primals[0], with_zeros(" in text


FILTERED = library(
    FILTERS
    + """
@jax.custom_jvp
def passed(state):
    return state

def passed_jvp(primals, tangents):
    floats = jax.tree.map(
        lambda t, p: t if jnp.issubdtype(p.dtype, jnp.inexact) else None,
        tangents[0], primals[0],
    )
    zero = jax.custom_derivatives.SymbolicZero.from_primal_value
    out = jax.tree.map(
        lambda t, p: zero(p) if t is None else t, floats, primals[0], is_leaf=is_none
    )
    return primals[0], out

passed.defjvp(passed_jvp, symbolic_zeros=True)
"""
)


@pytest.mark.parametrize(
    "unflatten", [jax.tree.unflatten, jax.tree_util.tree_unflatten]
)
def test_trees_are_put_together_of_what_an_iterator_gives(unflatten):
    def f(tree, x):
        leaves, treedef = jax.tree.flatten(tree)
        doubled = unflatten(treedef, map(lambda leaf: leaf * 2, leaves))
        moved = unflatten(treedef, (leaf + x for leaf in leaves))
        return doubled, moved

    src = untrace.source(f)({"a": jnp.ones(3), "b": (jnp.ones(2), jnp.zeros(()))}, 1.0)
    assert src.report.strength == "identical" and not src.report.notes, str(src.report)
    assert "[leaf * 2 for leaf in jax.tree.leaves(tree)]" in str(src), str(src)
