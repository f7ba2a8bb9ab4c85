"""Dicts that libraries split and put together again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.lifting.installed import library

X = np.linspace(0.1, 1.0, 4, dtype=np.float32)
MODEL = {
    name: {"bias": X, "kernel": X + i, "rngs": {"count": np.int32(i), "key": X}}
    for i, name in enumerate(["first", "second", "third"])
}
STATES = library(
    """
def dropped(tree, key):
    if not isinstance(tree, dict):
        return tree
    return {k: dropped(v, key) for k, v in tree.items() if k != key}

def filled(new, old):
    if not isinstance(new, dict):
        return new
    return {k: filled(new[k], v) if k in new else v for k, v in old.items()}

def update(model, function, x):
    params = dropped(model, "rngs")
    new = jax.tree.map(lambda p: p - function(p, x), params)
    return filled(new, model)

def norms(params, stats, x):
    return jnp.tanh(x), {**stats, "mean": jnp.sum(x), "var": jnp.sum(x * x)}
"""
)


def recover(function, *args, **options):
    source = untrace.source(function, **options)(*args)
    assert source.report.is_verified, str(source.report)
    assert "from its equations" not in str(source), source.report.notes
    return str(source)


def test_a_part_of_a_model_and_the_model_with_a_new_part():
    def step(model, x):
        return STATES.update(model, lambda p, x: p * x, x)

    text = recover(step, MODEL, X)
    assert 'without(model, "rngs")' in text
    assert "merged(model, " in text
    assert 'model["first"]' not in text


def test_the_helpers_do_what_they_say():
    namespace: dict = {}
    exec(
        recover(lambda m, x: STATES.update(m, lambda p, x: p * x, x), MODEL, X),
        namespace,
    )
    without, merged = namespace["without"], namespace["merged"]
    tree = {"a": {"x": 1, "k": 2}, "b": {"k": 3}, "c": 4}
    assert without(tree, "k") == {"a": {"x": 1}, "c": 4}
    assert merged(tree, {"a": {"x": 5}}, {"b": {"new": 6}}) == {
        "a": {"x": 5, "k": 2},
        "b": {"k": 3, "new": 6},
        "c": 4,
    }
    assert tree == {"a": {"x": 1, "k": 2}, "b": {"k": 3}, "c": 4}


def test_a_dict_with_a_few_entries_replaced():
    def model(stats, x):
        return STATES.norms({}, stats, x)

    stats = {name: X for name in ("decay", "mean", "scale", "shift", "size", "var")}
    text = recover(model, stats, X)
    assert '{**stats, "mean": ' in text


STATE = {name: X for name in ("bumps", "position", "time", "walls")}


def replaced(state):
    return {**state, "position": state["position"] + 1, "bumps": state["bumps"] * 2}


def given(state):
    position = jnp.sin(state["position"])
    return dict(state, position=position, bumps=state["bumps"] * 2)


def listed(state):
    position = state["position"] + 1
    return {
        "bumps": state["bumps"] * 2,
        "position": position,
        "time": state["time"],
        "walls": state["walls"],
    }


@pytest.mark.parametrize("function", [replaced, given])
def test_a_dict_that_the_user_makes_of_another_one_has_what_it_replaces(function):
    text = recover(function, STATE)
    entries = '"position": position, "bumps": state["bumps"] * 2'
    if function is replaced:
        entries = entries.replace(": position", ': state["position"] + 1')
    assert f"return {{**state, {entries}}}" in text, text


def test_a_dict_whose_entries_the_user_lists_has_them():
    assert "**state" not in recover(listed, STATE)


def test_keys_that_are_also_kept_elsewhere_are_not_left_out():
    def step(model, x):
        part = {
            name: {"bias": held["bias"], "kernel": held["kernel"]}
            for name, held in model.items()
        }
        part["first"]["rngs"] = model["first"]["rngs"]
        return jax.tree.map(lambda leaf: leaf + x.sum().astype(leaf.dtype), part)

    assert "without(" not in recover(step, MODEL, X)


def test_parts_are_plain_dicts_where_names_are_hidden():
    def step(model, x):
        return STATES.update(model, lambda p, x: p * x, x)

    text = recover(step, MODEL, X, anonymous=True)
    assert "rngs" not in text and "kernel" not in text


def test_a_program_may_have_functions_of_the_helpers_names():
    def without(x):
        return jnp.sin(x) * jnp.cos(x) + 1.0

    def step(model, x):
        y = without(x) + without(x * 2.0)
        return STATES.update(model, lambda p, x: p * x, y)

    recover(step, MODEL, X)


MASKS = library(
    """
import jax

def masked(tree, has):
    return {
        name: {key: v if key in has else () for key, v in part.items()}
        for name, part in tree.items()
    }

def combined(tree, part):
    if isinstance(tree, dict):
        return {k: combined(v, part[k]) for k, v in tree.items()}
    return part if isinstance(tree, tuple) else tree

def update(tree, first, second):
    first = jax.tree.map(first, masked(tree, ("bias",)))
    second = jax.tree.map(second, masked(tree, ("kernel",)))
    return combined(first, second)
"""
)


def test_trees_that_hold_nothing_in_each_other_s_places():
    model = {n: {"bias": X, "kernel": X * 2} for n in ["first", "second", "third"]}

    def step(model):
        return MASKS.update(model, lambda x: x * 2.0, lambda x: jnp.sin(x))

    assert "filled(" in recover(step, model)


GROUPS = library(
    """
class Key:
    pass

FIRST, SECOND = Key(), Key()

class Contact(NamedTuple):
    distance: jax.Array
    normal: jax.Array

def groups(x):
    a = jnp.sin(x) * 2 + jnp.cos(x)
    b = jnp.exp(a) - jnp.tanh(x)
    return {
        FIRST: Contact(jnp.sin(a) * b, jnp.cos(b) + a),
        SECOND: Contact(jnp.cos(a) * b, jnp.cos(b) + x),
    }

def collided(groups, x):
    total = 0.0
    for key, contact in groups.items():
        a = jnp.sin(contact.distance) * 2 + jnp.cos(x)
        total += jnp.exp(a) - jnp.tanh(contact.normal) + jnp.cos(a) + jnp.sin(a)
    return total
"""
)


def test_dicts_with_keys_that_have_no_text():
    def f(x):
        return GROUPS.collided(GROUPS.groups(x), x) + GROUPS.collided(
            GROUPS.groups(x * x), x
        )

    source = untrace.source(f)(X)
    assert source.report.is_verified and source.report.notes == ()
    assert "def groups(x):" in str(source)
