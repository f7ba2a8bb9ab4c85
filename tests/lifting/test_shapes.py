"""Level "api": libraries that pass the leaves of a module as a list."""

import jax
import jax.numpy as jnp
import numpy as np

import untrace
from tests.lifting.installed import library

X = np.linspace(0.1, 1.0, 4, dtype=np.float32)

SPLIT = """
@jax.tree_util.register_pytree_with_keys_class
class States:
    def __init__(self, states):
        self.states = states

    def tree_flatten_with_keys(self):
        return [(jax.tree_util.GetAttrKey("states"), self.states)], None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)

def jit(function):
    def call(*args):
        trees = [jax.tree.structure(arg) for arg in args]

        def pure(*states):
            whole = [jax.tree.unflatten(t, s.states[0]) for t, s in zip(trees, states)]
            changed, out = function(*whole)
            return out, States((jax.tree.leaves(changed),))

        lists = [States((jax.tree.leaves(arg),)) for arg in args]
        out, changed = jax.jit(pure)(*lists)
        return jax.tree.unflatten(trees[0], changed.states[0]), out

    return call

def each(function):
    def call(*args):
        return function(*args)
    return lambda *args: jax.vmap(call)(*args)
"""


def recover(function, *args):
    src = untrace.source(function)(*args)
    assert "from its equations" not in str(src), src.report.notes
    assert src.report.is_verified, str(src.report)
    return str(src)


def test_a_tree_whose_leaves_are_passed_is_passed_whole():
    split = library(SPLIT)
    params = {"scale": X, "shift": {"a": np.float32(1.0), "b": X}}

    def step(params, x):
        return split.jit(scaled)(params, [x])

    def scaled(params, xs):
        total = jnp.sum(params["scale"] * xs[0]) + params["shift"]["a"]
        return jax.tree.map(lambda p: p - 0.1 * total, params), total

    text = recover(step, params, X)
    assert "def pure(params, " in text
    assert 'params["scale"]' in text and 'params["shift"]["a"]' in text
    assert "states" not in text


def test_a_list_in_another_order_stays_a_list():
    split = library(SPLIT)

    def step(pair, x):
        states = split.States(([pair["b"], pair["a"]],))
        return jax.jit(lambda s: s.states[0][0] - s.states[0][1] * x)(states)

    text = recover(step, {"a": X, "b": 2 * X}, X)
    assert '[pair["b"], pair["a"]]' in text


def test_starred_arguments_of_a_library_have_names():
    split = library(SPLIT)

    def double(x, y):
        return jnp.sin(x) * jnp.cos(y) + jnp.tanh(x)

    text = recover(lambda x, y: split.each(double)(x, y), X, X)
    assert "*args" not in text


FILTERED = """
def filter_jit(function):
    @jax.jit
    def cached(dynamic):
        first = jax.tree.unflatten(trees[0], dynamic["first"])
        rest = jax.tree.unflatten(trees[1], dynamic["rest"])
        return jnp.array(0), function(first, *rest), None

    trees = []

    def call(first, *rest):
        trees[:] = [jax.tree.structure(first), jax.tree.structure(rest)]
        leaves = {"first": tuple(jax.tree.leaves(first)), "fun": (None,)}
        return cached({**leaves, "rest": tuple(jax.tree.leaves(rest))})[1]

    return call
"""


def test_leaves_of_several_arguments_are_these_arguments():
    filtered = library(FILTERED)

    def step(params, state, x):
        total = jnp.sum(params["w"] * x) + params["b"]
        state = {"count": state["count"] + 1, "mean": state["mean"] + total}
        return jax.tree.map(lambda p: p - total, params), state

    def train(params, state, x):
        return filtered.filter_jit(step)(params, state, x)

    params = {"w": X, "b": np.float32(1.0)}
    state = {"count": np.int32(0), "mean": np.float32(0.0)}
    text = recover(train, params, state, X)
    assert "jax.jit(step)(params, state, x)" in text
