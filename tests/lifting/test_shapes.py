"""Level "api": libraries that pass the leaves of a module as a list."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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


def test_a_tree_that_a_jitted_call_returned_is_passed_whole_to_one_of_other_sizes():
    split = library(SPLIT)

    def update(params, given):
        total = jnp.sum(params["scale"]) * jnp.sum(given["x"])
        return jax.tree.map(lambda p: p - total, params), total

    def f(params, x):
        step = split.jit(update)
        params, first = step(params, {"x": x})
        params, second = step(params, {"x": x[:2]})
        return params, first, second

    params = {"scale": X, "shift": {"a": np.float32(1.0), "b": X}}
    text = recover(f, params, X)
    assert '["scale"]' in text and "states" not in text, text
    assert "[0][1]" not in text


def test_a_flax_train_step_at_two_batch_sizes():
    nnx = pytest.importorskip("flax.nnx")
    optax = pytest.importorskip("optax")
    layer = nnx.Linear(4, 2, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(layer, optax.sgd(0.1), wrt=nnx.Param)

    @nnx.jit
    def train_step(layer, optimizer, x):
        def loss(layer):
            return jnp.mean(layer(x) ** 2)

        value, gradients = nnx.value_and_grad(loss)(layer)
        optimizer.update(layer, gradients)
        return value

    layer_def, params = nnx.split(layer)
    optimizer_def, state = nnx.split(optimizer)

    def f(params, state, x):
        layer = nnx.merge(layer_def, params)
        optimizer = nnx.merge(optimizer_def, state)
        first = train_step(layer, optimizer, x)
        second = train_step(layer, optimizer, x[:2])
        return first, second, nnx.state(layer)

    text = recover(f, params, state, np.ones((4, 4), np.float32))
    assert text.count("jax.value_and_grad(") == 1 and "known_as" not in text


def test_an_equinox_step_at_two_batch_sizes():
    equinox = pytest.importorskip("equinox")

    @equinox.filter_jit
    def step(model, rate, x):
        model = jax.tree.map(lambda w: w - rate if equinox.is_array(w) else w, model)
        return model, rate * 0.5, jnp.sum(jax.vmap(model)(x))

    model = equinox.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))
    params, static = equinox.partition(model, equinox.is_array)

    def f(params, rate, x):
        model, rate, first = step(equinox.combine(params, static), rate, x)
        model, rate, second = step(model, rate, x[:2])
        return equinox.filter(model, equinox.is_array), rate, first, second

    text = recover(f, params, jnp.float32(0.1), np.ones((4, 3), np.float32))
    assert "jax.jit" in text and "(model, rate, x[:2])" in text
    assert "dynamic" not in text
