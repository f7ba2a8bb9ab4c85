"""Objects of libraries whose children have no names: fields after their attributes."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.lifting import installed
from untrace import recorded
from untrace.capture.attributes import attribute_names
from untrace.capture.trees import Leaf, Node
from untrace.lifting.recorded.functions.fields import keep_used, unread_fields

X = np.linspace(0.1, 1.0, 4, dtype=np.float32)

TEXT = """
@jax.tree_util.register_pytree_node_class
class Listed:
    def tree_flatten(self):
        leaves, tree = jax.tree.flatten(self.__dict__)
        return leaves, tree

    @classmethod
    def tree_unflatten(cls, tree, leaves):
        made = object.__new__(cls)
        made.__dict__ = jax.tree.unflatten(tree, leaves)
        return made

@jax.tree_util.register_pytree_node_class
class Shift(Listed):
    def __init__(self, shift, scale):
        self._shift = shift
        self._scale = scale

    def forward(self, x):
        a = jnp.sin(x) * self._scale + jnp.cos(x) * jnp.tan(x) - jnp.exp(x)
        return jnp.tanh(a) + self._shift * jnp.log(a * a) + jnp.exp(a) * a

@jax.tree_util.register_pytree_node_class
class Normal(Listed):
    def __init__(self, loc, scale):
        self._loc = loc
        self._variance = scale * scale
        self._shifts = [Shift(loc, 1.0 / scale)]

    def log_prob(self, x):
        a = (x - self._loc) * jnp.sin(x) + jnp.cos(x) * jnp.tan(x) - jnp.exp(x)
        return self._shifts[0].forward(a) + jnp.exp(a) * jnp.sin(a)
"""


def library(text=TEXT):
    return installed.library(text)


def recover(function, *args):
    src = untrace.source(function)(*args)
    assert "Written from its equations" not in str(src), src.report.notes
    assert src.report.is_verified, str(src.report)
    return str(src)


def fields(text, name):
    """List the fields of a stand-in."""
    lines = text.split(f"class {name}(NamedTuple):\n")[1].split("\n\n")[0].split("\n")
    return [line.strip().removesuffix(": Any") for line in lines]


def policy(layers):
    def policy(x):
        loc = jnp.sin(x) + jnp.cos(x)
        return layers.Normal(loc, jnp.exp(x))

    return policy


def test_children_are_named_after_attributes():
    layers = library()
    made = layers.Normal(X, X)
    assert attribute_names(made) == ["loc", "scale", "shift", "variance"]


def test_names_that_end_alike_say_where_they_are():
    layers = library()
    made = layers.Normal(X, X)
    made._spare = layers.Shift(X, {"gain": X})
    made._scale = X
    assert attribute_names(made) == [
        "loc",
        "scale",
        "shifts_scale",
        "shifts_shift",
        "gain",
        "spare_shift",
        "variance",
    ]
    made._shifts = layers.Shift([X, X], X)
    assert attribute_names(made)[2:5] == [
        "shifts_scale",
        "shifts_shift",
        "shifts_shift_2",
    ]


def test_what_nothing_reads_is_left_out():
    layers = library()
    make = policy(layers)

    def model(x):
        normal = make(x)
        return normal.log_prob(x) + normal.log_prob(2 * x)

    text = recover(model, X)
    assert fields(text, "Normal") == ["loc", "scale"]
    assert "variance" not in text and "shifts" not in text


@pytest.mark.parametrize("is_result", [True, False])
def test_what_the_program_takes_or_returns_is_whole(is_result):
    layers = library()
    make = policy(layers)

    def model(x):
        normal = make(x)
        return normal.log_prob(x) + normal.log_prob(2 * x), normal

    def scored(normal, x):
        return normal.log_prob(x) + normal.log_prob(2 * x)

    text = recover(model, X) if is_result else recover(scored, make(X), X)
    assert fields(text, "Normal") == ["loc", "scale", "shift", "variance"]


def test_a_class_that_is_returned_as_it_is_has_all_its_fields():
    shift = library().Shift
    names = "shift", "scale"
    returned = Node("fields", shift, names, (Leaf(0), Leaf(1)))
    shown = Node("tuple", None, (0,), (returned,))
    assert unread_fields([(shift, names)], [shown], []) == set()
    assert unread_fields([(shift, names)], [], []) == {(shift, n) for n in names}


def test_objects_that_pass_through_transformations_keep_what_is_read():
    layers = library()
    make = policy(layers)

    def model(x):
        normal = jax.vmap(make)(x[None])
        return jax.vmap(lambda one: one.log_prob(x) + one.log_prob(2 * x))(normal)

    text = recover(model, X)
    assert fields(text, "Normal") == ["loc", "scale", "shift"]


def test_leaves_that_are_taken_by_their_numbers_stay():
    layers = library()
    make = policy(layers)

    def model(x):
        normal = jax.vmap(make)(x[None])
        leaves = jax.tree.leaves(normal)
        scaled = jax.tree.map(lambda leaf: leaf * 2, normal)
        return (
            leaves[3] + normal.log_prob(x) + scaled.log_prob(x) * scaled.log_prob(2 * x)
        )

    recover(model, X)


def test_classes_that_look_at_their_children_are_searched_as_they_are():
    layers = library(
        TEXT
        + """
@jax.tree_util.register_pytree_node_class
class Checked(Listed):
    def __init__(self, weight, bias):
        self._weight, self._bias = weight, bias

    @classmethod
    def tree_unflatten(cls, tree, leaves):
        return cls(*[jnp.asarray(leaf) for leaf in leaves])
"""
    )
    assert attribute_names(layers.Checked(X, X * 2)) == ["bias", "weight"]


def test_classes_of_the_user_keep_their_fields():
    module = types.ModuleType("model")
    module.__dict__.update(jax=jax, jnp=jnp)
    exec(compile(TEXT, "/home/me/model.py", "exec"), module.__dict__)
    make = policy(module)
    text = recover(lambda x: make(x).log_prob(x) + make(2 * x).log_prob(x), X)
    assert fields(text, "Normal") == ["loc", "scale", "shift", "variance"]


def test_stand_ins_that_nothing_mentions_are_forgotten():
    key = (tuple, ("a",))
    classes = {key: ("State", []), (tuple, ("b",)): ("State_2", [])}
    keep_used(classes, [], ["return State(a=x.State_2_)"])
    assert list(classes) == [key]
    keep_used(classes, [Node("replaced", *key, (Leaf(0),))], ["return x"])
    assert list(classes) == [key]


BOXES = """
import typing

@jax.tree_util.register_pytree_with_keys_class
class Param:
    def __init__(self, value):
        self.value = value

    def tree_flatten_with_keys(self):
        return [(jax.tree_util.GetAttrKey("value"), self.value)], None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)

class EmptyState(typing.NamedTuple):
    pass
"""


def test_a_box_of_a_library_is_what_it_holds():
    boxes = library(BOXES)

    def step(params, x):
        params = jax.tree.map(lambda p: p - 0.1 * x, params)
        return params, params["w"].value * x

    text = recover(step, {"w": boxes.Param(X)}, X)
    assert 'params["w"] * x' in text
    assert "value" not in text and "NamedTuple" not in text


def test_empty_states_of_a_library_are_empty_tuples():
    states = library(BOXES)

    def step(state, x):
        count, empty = state
        return (count + 1, empty), jnp.sin(x)

    text = recover(step, (np.int32(0), states.EmptyState()), X)
    assert "(count + 1, ())" in text and "NamedTuple" not in text


WINDOWS = """
from typing import NamedTuple

class Window(NamedTuple):
    start: int
    end: int

    def size(self):
        return self.end - self.start

class State(NamedTuple):
    windows: list
    spare: jax.Array
    n: jax.Array

    def value(self):
        return self.spare

def advance(state, x):
    table = jnp.asarray(state.windows)
    y = jnp.sin(x) * jnp.cos(x) + jnp.tan(x) * table[state.n, 1]
    return State(state.windows, y, state.n + 1), jnp.exp(y) + jnp.tanh(y) * jnp.sin(y)

def begin(x):
    y = jnp.sin(x) * jnp.cos(x) + jnp.exp(x) * jnp.tan(x)
    n = jnp.argmax(y) % 2
    return State([Window(0, 3), Window(4, 9)], jnp.exp(y), n)
"""


def test_records_that_become_arrays_are_whole(monkeypatch):
    solver = library(WINDOWS)

    def function(x):
        state = solver.begin(x)
        state, y = solver.advance(state, x)
        return solver.advance(state, y)[1]

    checked = []
    check = recorded.check_module

    def counted(*args, **kwargs):
        checked.append(0)
        return check(*args, **kwargs)

    monkeypatch.setattr(recorded, "check_module", counted)
    text = recover(function, X)
    assert len(checked) == 1
    assert "Window(start=0, end=3)" in text and "spare" not in text, text
