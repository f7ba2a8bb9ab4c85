"""A function that is mapped over a tree and does something else for objects of a class."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.lifting.installed import library

X = np.arange(3.0, dtype=np.float32)


class Slot(NamedTuple):
    value: jax.Array
    other: jax.Array


TREE = {"a": Slot(X, X + 1.0), "b": [X, Slot(X, X - 1.0)], "c": X}


def recover(function, *args):
    source = untrace.source(function)(*args)
    assert source.report.is_verified
    return str(source)


def is_slot(x):
    return isinstance(x, Slot)


def test_a_choice_between_two_expressions_comes_back():
    def f(tree, scale):
        return jax.tree.map(
            lambda s: s.value * s.other if is_slot(s) else scale * jnp.sin(s),
            tree,
            is_leaf=is_slot,
        )

    text = recover(f, TREE, X)
    assert "s.value * s.other if isinstance(s, Slot) else scale * jnp.sin(s)" in text
    assert "is_leaf=lambda x: isinstance(x, Slot)" in text


def test_several_trees_may_be_mapped_over():
    def f(tree, others):
        return jax.tree.map(
            lambda s, t: Slot(s.value + t.value, t.other) if is_slot(s) else s * t,
            tree,
            others,
            is_leaf=is_slot,
        )

    doubled = jax.tree.map(lambda x: 2.0 * x, TREE)
    text = recover(f, TREE, doubled)
    assert "if isinstance(s, Slot)" in text and "else s * t" in text


def test_trees_that_are_not_needed_are_not_passed():
    boxes = library(
        """
class Box:
    def __init__(self, value):
        self.value = value

jax.tree_util.register_pytree_with_keys(
    Box,
    lambda box: ([(jax.tree_util.GetAttrKey("value"), box.value),
                  (jax.tree_util.GetAttrKey("again"), box.value)], None),
    lambda _, parts: Box(parts[0]),
)

def is_box(x):
    return isinstance(x, Box)

def update(tree):
    marked = {**tree, "kept": Box(tree["kept"])}
    changed = {**marked, "x": jnp.sin(marked["x"]), "y": jnp.cos(marked["y"])}
    return jax.tree.map(
        lambda new, old: old.value if is_box(old) else jnp.array(new),
        changed, marked, is_leaf=is_box,
    )
"""
    )
    tree = {"kept": X, "x": X, "y": X, "z": X}
    text = recover(lambda tree: boxes.update(tree), tree)
    assert "jnp.sin(" in text


@pytest.mark.parametrize("n_lines", [1, 2])
def test_more_than_an_expression_is_written_leaf_by_leaf(n_lines):
    def f(tree):
        def change(s):
            if not is_slot(s):
                return jnp.cos(s)
            value = jnp.sin(s.value)
            for _ in range(n_lines - 1):
                value = value * jnp.tanh(value)
            return Slot(value, value + s.other)

        return jax.tree.map(change, tree, is_leaf=is_slot)

    assert "jax.tree.map" not in recover(f, TREE)


def test_three_kinds_are_written_leaf_by_leaf():
    class Other(NamedTuple):
        value: jax.Array

    def f(tree):
        return jax.tree.map(
            lambda s: s.value if isinstance(s, (Slot, Other)) else jnp.cos(s),
            tree,
            is_leaf=lambda s: isinstance(s, (Slot, Other)),
        )

    text = recover(f, {**TREE, "d": Other(X)})
    assert "isinstance" not in text and "jnp.cos" in text


def test_an_object_inside_one_of_its_class_may_alone_be_a_leaf():
    def is_inner(x):
        return isinstance(x, Slot) and not isinstance(x.value, Slot)

    def f(tree):
        return jax.tree.map(
            lambda s: s.value if is_inner(s) else jnp.sin(s), tree, is_leaf=is_inner
        )

    text = recover(f, {"a": Slot(Slot(X, X + 1.0), X + 2.0), "b": X})
    assert "written from its equations" not in text
    assert "isinstance" not in text
