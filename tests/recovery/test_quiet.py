"""What leads to nothing is not watched, and counts again once it leads to something."""

from collections import OrderedDict

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.lifting.installed import library
from tests.recovery.test_recorder import X, names, record
from untrace.recovery.kinds import MIN_IDLE_RUNS, MIN_QUIET_RUNS, Kinds
from untrace.recovery.snapshots import Snapshots

LAYERS = """
def choose(x, is_last):
    return jnp.tanh(x) if is_last else None


def nested(x, depth):
    if depth:
        nested(x, depth - 1)
        return jnp.sin(x) if depth == 40 else None
    return None


def rule(residuals, cotangent):
    if residuals is None:
        return None
    return (jnp.cos(residuals) * cotangent,)


def marked(tree, n_axes):
    return jax.tree.map(lambda x: x if x.ndim < n_axes else None, tree)


def scaled(tree, factor):
    def leaf(x):
        return x if factor is None or x.ndim > 1 else x * factor

    return jax.tree.map(leaf, tree)
"""


@pytest.fixture
def layers():
    return library(LAYERS)


def owns(body):
    """Return the names of the recorded functions that a run called."""
    return [call.bodies[0].code.co_name for call in body.calls if call.is_own]


def test_a_function_that_led_to_nothing_is_recorded_once_it_calls_jax(layers):
    def f(x):
        for _ in range(3 * MIN_QUIET_RUNS):
            layers.choose(x, False)
        y = layers.choose(x, True)
        return layers.choose(y, True)

    _, body = record(f, X)
    assert owns(body) == ["choose", "choose"]
    assert [names(call.bodies[0]) for call in body.calls] == [["tanh"], ["tanh"]]
    text = untrace.source(f)(X)
    assert text.report.strength == "identical"


def test_a_function_that_counts_now_and_then_is_recorded_each_time(layers, monkeypatch):
    def f(x):
        for n in range(3):
            for _ in range(MIN_QUIET_RUNS << 2 * n):
                layers.choose(x, False)
            x = layers.choose(x, True)
        return x

    left, stop = [], Kinds.stop_watching
    monkeypatch.setattr(
        Kinds, "stop_watching", lambda self, own: (left.append(own), stop(self, own))
    )
    _, body = record(f, X)
    assert owns(body) == ["choose"] * 3
    assert [own.code.co_name for own in left] == ["choose"] * 3


def test_a_function_that_is_running_is_watched_to_its_end(layers):
    def f(x):
        for _ in range(3):
            y = layers.nested(x, 40)
        return jnp.cos(y)

    _, body = record(f, X)
    assert owns(body) == ["nested"] * 3
    assert names(body)[-1] == "cos"


def test_a_quiet_function_that_is_passed_to_a_transformation_is_its_body(layers):
    def f(x):
        for _ in range(2 * MIN_QUIET_RUNS):
            layers.choose(x, False)
        return jax.vmap(layers.choose, in_axes=(0, None))(x, True)

    _, body = record(f, X)
    call = body.calls[-1]
    assert [run.code.co_name for run in call.bodies] == ["choose"]
    assert untrace.source(f)(X).report.strength == "identical"


def test_a_quiet_function_that_becomes_a_derivative_rule_is_recorded(layers):
    def f(x):
        for _ in range(2 * MIN_QUIET_RUNS):
            layers.rule(None, x)

        @jax.custom_vjp
        def sine(x):
            return jnp.sin(x)

        sine.defvjp(lambda x: (sine(x), x), layers.rule)
        return jax.grad(lambda x: sine(x).sum())(x)

    text = untrace.source(f)(X)
    assert text.report.strength == "identical"
    assert "jnp.cos(residuals) * cotangent" in str(text)


def test_reading_an_attribute_is_no_call(layers):
    class Scaled:
        def __init__(self, scale):
            self.factor = scale

        def __getattribute__(self, name):
            return object.__getattribute__(self, name)

        @property
        def halved(self):
            return jnp.exp(self.factor) / 2

    def f(scale, x):
        scaled = Scaled(scale)
        half = scaled.halved
        return x * half + scaled.factor

    _, body = record(f, X[0], X)
    assert owns(body) == ["halved"]
    text = untrace.source(f)(X[0], X)
    assert text.report.strength == "identical"
    assert "half = halved(scale)" in str(text)


def test_runs_of_what_is_mapped_over_trees_and_does_nothing_are_left_out(layers):
    tree = {"w": X, "b": X[0], "n": X[0]}

    def f(tree):
        for _ in range(MIN_IDLE_RUNS + 2):
            tree = layers.marked(tree, 3)
        return jnp.sum(tree["w"]) + jnp.sum(tree["b"])

    text = untrace.source(f)(tree)
    assert text.report.strength == "identical"
    assert "tree.map" not in str(text)
    _, body = record(f, tree)
    maps = [call.bodies[0].calls[0] for call in body.calls if call.is_own]
    assert [call.is_partial for call in maps] == [False] * MIN_IDLE_RUNS + [True] * 2
    assert [len(call.bodies) for call in maps] == [3] * MIN_IDLE_RUNS + [0] * 2


@pytest.mark.parametrize("n_idle", [0, MIN_IDLE_RUNS + 1])
def test_what_was_mapped_idly_and_calls_jax_later_comes_back(layers, n_idle):
    tree = {"w": X, "b": X[0], "n": X[0]}

    def f(tree):
        for _ in range(n_idle):
            tree = layers.scaled(tree, None)
        return layers.scaled(layers.scaled(tree, 2.0), 3.0)

    text = untrace.source(f)(tree)
    assert text.report.strength == "identical"
    assert not text.report.notes


def test_a_number_that_stands_in_the_source_hides_no_name():
    def f(x, eps):
        x = jnp.maximum(x, 1e-6)
        x = jnp.maximum(x, eps)
        x = jnp.maximum(x, eps or 1e-6)
        return jnp.clip(x, eps, 1e-6)

    _, body = record(lambda x: f(x, 1e-6), X)
    (run,) = body.calls[0].bodies
    named = [[name for _, name in call.numbers] for call in run.calls]
    assert named == [[], ["eps"], ["eps"], ["eps"]]


class Node:
    __slots__ = ("__dict__", "left")

    def __init__(self, left, right):
        self.left, self.right = left, right


jax.tree_util.register_pytree_node(
    Node, lambda n: ((n.left, n.right), None), lambda _, children: Node(*children)
)


class Table(dict):
    """A container that holds its items neither in slots nor in a `__dict__`."""


jax.tree_util.register_pytree_node(
    Table, lambda t: (tuple(t.values()), tuple(t)), lambda keys, c: Table(zip(keys, c))
)


class Named:
    """An object that holds its items in a container of its own."""

    def __init__(self, **items):
        self.items = items


jax.tree_util.register_pytree_node(
    Named,
    lambda n: (tuple(n.items.values()), tuple(n.items)),
    lambda keys, c: Named(**dict(zip(keys, c))),
)


@pytest.mark.parametrize("made", [OrderedDict, Table])
def test_a_container_of_another_class_is_copied_again_once_it_has_changed(made):
    take, first = Snapshots().take, np.zeros(2)
    table = made(a=first)
    assert take(table)["a"] is first
    table["a"] = second = np.ones(2)
    assert take(table)["a"] is second
    table["b"] = first
    assert list(take(table)) == ["a", "b"]


def test_an_object_is_copied_again_once_what_it_holds_has_changed():
    take = Snapshots().take
    named = Named(a=np.zeros(2))
    before = take(named)
    named.items["a"] = changed = np.ones(2)
    assert take(named).items["a"] is changed is not before.items["a"]


class Marked:
    """A pytree whose metadata cannot be compared."""

    def __init__(self, x, mark):
        self.x, self.mark = x, mark


jax.tree_util.register_pytree_node(
    Marked, lambda m: ((m.x,), m.mark), lambda mark, c: Marked(*c, mark)
)


def test_metadata_that_cannot_be_compared_do_not_prevent_a_copy():
    take = Snapshots().take
    marked = Marked([np.zeros(2)], np.arange(3))
    first, second = take(marked), take(marked)
    marked.x.append(None)
    assert len(first.x) == len(second.x) == 1


def test_an_object_is_copied_again_once_it_has_changed():
    take = Snapshots().take
    inner = Node(np.zeros(2), [])
    outer = Node(inner, {"inner": inner})
    first = take(outer)
    assert take(outer).left is first.left is not inner
    inner.left = np.ones(2)
    second = take(outer)
    assert second is not first
    assert second.left.left is inner.left is not first.left.left
    inner.right.append(1)
    third = take(outer)
    assert third.left.right == [1]
    assert second.left.right == []


class Layers:
    """A pytree with slots, whose parts are the items of two lists."""

    __slots__ = ("first", "note", "second")

    def __init__(self, first, second, note=None):
        self.first, self.second, self.note = first, second, note


jax.tree_util.register_pytree_node(
    Layers,
    lambda n: ((*n.first, *n.second), (len(n.first), tuple(n.note or ()))),
    lambda aux, c: Layers([*c[: aux[0]]], [*c[aux[0] :]], [*aux[1]]),
)


def shown(layers):
    return layers.first, layers.second, layers.note


def move(layers):
    layers.second.insert(0, layers.first.pop())


def replace(layers):
    layers.first[0] = 2.0


def rename(layers):
    layers.note.append("c")


def exchange(layers):
    layers.first, layers.second = layers.second, layers.first


def change_inside(layers):
    layers.second[-1].left = 5.0


@pytest.mark.parametrize("change", [move, replace, rename, exchange, change_inside])
def test_an_object_that_changed_anywhere_is_copied_again(change):
    take = Snapshots().take
    layers = Layers([0.0, 1.0], [3.0, Node(4.0, None)], ["a", "b"])
    first = take(layers)
    assert take(layers) is first  # it was only looked at
    before = [*map(list, shown(first))]
    change(layers)
    second = take(layers)
    assert second is not first
    assert [*map(list, shown(first))] == before
    assert [len(one) for one in shown(second)] == [len(one) for one in shown(layers)]
    assert take(layers) is second


def test_looking_at_an_object_runs_no_code_of_its_class():
    class Reading(Node):
        def __getattribute__(self, name):
            ran.append(name)
            return object.__getattribute__(self, name)

    jax.tree_util.register_pytree_node(
        Reading,
        lambda n: ((), object.__getattribute__(n, "left")),
        lambda left, _: Reading(left, None),
    )
    ran = []
    take, node = Snapshots().take, Reading(1.0, None)
    assert take(node) is take(node)
    assert ran == []


class Raising(Node):
    """A pytree that cannot be taken apart any more."""


def refuse(node):
    raise RuntimeError("closed")


jax.tree_util.register_pytree_node(Raising, refuse, lambda _, children: None)


@pytest.mark.parametrize("note", [Raising(0.0, None), list(range(20_000))])
def test_metadata_that_cannot_be_looked_at_do_not_prevent_a_copy(note):
    take = Snapshots().take
    marked = Marked([np.zeros(2)], note)
    first, second = take(marked), take(marked)
    marked.x.append(None)
    assert len(first.x) == len(second.x) == 1
    assert len(take(marked).x) == 2
