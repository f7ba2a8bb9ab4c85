"""Jaxprs give back the pytrees that the paths of their arguments tell of."""

import collections

import jax
import jax.numpy as jnp
import pytest

import untrace
from untrace.capture.paths import argument_trees, result_tree
from untrace.capture.trees import Leaf, Node

State = collections.namedtuple("State", "mean count")
PARAMS = {"layer": {"w": jnp.ones((3, 3)), "b": [jnp.ones(3)]}}
BATCH = (jnp.ones((2, 3)), jnp.ones(2))


def predict(params, batch, scale):
    layer = params["layer"]
    h = jnp.tanh(batch[0] @ layer["w"] + layer["b"][0])
    return {"out": h * scale, "aux": (batch[1], h)}


def shape(tree):
    """Write a tree with the numbers of its leaves."""
    if isinstance(tree, Leaf):
        return tree.index
    children = [shape(child) for child in tree.children]
    return tuple(children) if tree.kind == "tuple" else dict(zip(tree.keys, children))


@pytest.mark.parametrize("level", ["api", "lax"])
@pytest.mark.parametrize("kind", ["jaxpr", "traced"])
def test_pytrees_of_arguments_and_results_come_back(level, kind):
    args = (PARAMS, BATCH, 2.0)
    if kind == "jaxpr":
        given = jax.make_jaxpr(predict)(*args)
    else:
        given = jax.jit(predict).trace(*args)
    src = untrace.source(given, level=level)
    assert src.report.is_verified, src.report
    assert "def predict(params, batch, scale):" in str(src)
    found = jax.jit(src.load())(*args)
    assert jax.tree.structure(found) == jax.tree.structure(predict(*args))


def test_objects_with_fields_become_named_tuples():
    def step(state, x):
        return State(state.mean + x, state.count + 1)

    text = str(untrace.source(jax.make_jaxpr(step)(State(1.0, 2), 3.0), level="api"))
    assert text.count("(NamedTuple)") == 1
    assert "names only the fields" in text
    assert "return State(mean=state.mean + x, count=state.count + 1)" in text


CASES = [
    (["x", "y"], {"x": 0, "y": 1}),
    (["x[0]", "x[1]"], {"x": (0, 1)}),
    (["p['b']", "p['w'][0]", "p['w'][1]"], {"p": {"b": 0, "w": (1, 2)}}),
    (['p["b"]', "s.mu", "s.nu"], {"p": {"b": 0}, "s": {"mu": 1, "nu": 2}}),
    # What may mean several trees, or none, stays flat.
    (["x[0]", "x[2]"], {"x[0]": 0, "x[2]": 1}),
    (["x[1]", "x[0]"], {"x[1]": 0, "x[0]": 1}),
    (["p['w']", "p['b']"], {"p['w']": 0, "p['b']": 1}),
    (["x", "x[0]"], {"x": 0, "x[0]": 1}),
    (["x[0]", "x['a']"], {"x[0]": 0, "x['a']": 1}),
    (["x[0]", "y", "x[1]"], {"x[0]": 0, "y": 1, "x[1]": 2}),
    (["s.class"], {"s.class": 0}),
    (["s._private"], {"s._private": 0}),
    (["x[<flat index 0>]"], {"x[<flat index 0>]": 0}),
    (["x[-1]"], {"x[-1]": 0}),
    (["", "y[0]"], {"": 0, "y": (1,)}),
    # Nobody evaluates a path.
    (["x[__import__('os')]"], {"x[__import__('os')]": 0}),
    (["x['a'] + f()"], {"x['a'] + f()": 0}),
    (["x['a\\n']"], {"x['a\\n']": 0}),
    (["x" + "[0]" * 40], {"x" + "[0]" * 40: 0}),
]


@pytest.mark.parametrize(("paths", "expected"), CASES, ids=[str(c[0]) for c in CASES])
def test_paths_are_read_where_they_mean_one_tree(paths, expected):
    found = argument_trees(paths, {})
    assert {name: shape(tree) for name, tree in found} == expected


def test_results_are_one_tree_or_none():
    assert shape(result_tree(["result['a']", "result['b'][0]"], {})) == {
        "a": 0,
        "b": (1,),
    }
    assert result_tree(["result[0]", "result[2]"], {}) is None
    assert result_tree(["result"], {}) == Leaf(0)


def test_keys_cannot_leave_their_quotes():
    key = "w']; import os; x['"
    jaxpr = jax.make_jaxpr(lambda p: p[key] + 1)({key: 1.0})
    text = str(untrace.source(jaxpr, level="api"))
    assert "import os;" not in text


def test_objects_of_the_same_fields_share_a_class():
    classes = {}
    (_, a), (_, b) = argument_trees(["a.x", "a.y", "b.x", "b.y"], classes)
    assert isinstance(a, Node) and isinstance(b, Node)
    assert a.cls is b.cls and len(classes) == 1
