"""The steps that lead from a value to a part of it, and how they are spelled."""

import enum

import numpy as np
import pytest

from untrace.capture.dict_keys import spelled
from untrace.capture.trees import accessors, describe, leaf_paths, part_at
from untrace.lifting.recorded.naming.held import differing_key, leading
from untrace.lifting.recorded.naming.paths import (
    differing_step,
    first_word,
    index_of,
    last_word,
    part_of,
    words_of,
)
from untrace.syntax.steps import (
    Attribute,
    Item,
    Slice,
    common,
    ends_with,
    leads_into,
    without_end,
)


class Color(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        ((Item("layers"), Item(0), Attribute("w")), '["layers"][0].w'),
        ((Item("a'][.b"), Item(("x", 1))), """["a'][.b"][("x", 1)]"""),
        ((Item(np.int32(3)), Item(Color.RED)), "[np.int32(3)][Color.RED]"),
        ((Item(-1), Slice(1), Slice(None, -1), Slice(0, 6, 2)), "[-1][1:][:-1][0:6:2]"),
    ],
)
def test_paths_are_spelled(path, text):
    assert spelled(path) == text


def test_a_step_is_of_one_kind():
    assert Item("w") != Attribute("w")
    assert len({Item("w"), Attribute("w"), Item("w"), Slice(1), Item(1)}) == 4


def test_an_attribute_whose_name_begins_alike_is_another_one():
    assert leads_into((Attribute("mu"), Item(0)), (Attribute("mu"),))
    assert not leads_into((Attribute("mu_2"),), (Attribute("mu"),))


def test_ends_of_paths():
    path = (Item("a"), Item(0), Attribute("w"))
    assert ends_with(path, ()) and without_end(path, ()) == path
    assert ends_with(path, path[1:]) and without_end(path, path[1:]) == path[:1]
    assert not ends_with(path[1:], path)
    assert common([path, (Item("a"), Item(0)), (Item("a"), Item(1))]) == path[:1]
    assert common([]) == ()
    assert leading(path) == [(), path[:1], path[:2]]


def test_what_differs():
    first, other = (Item("a"), Item(0)), (Item("b"), Item(0))
    assert differing_step(first, other) == 0
    assert differing_key(first, other) == (0, ["a", "b"])
    assert differing_key(first, (Item("a"), Item(1))) == (0, [])
    assert differing_step(first, (Item("b"), Item(1))) is None
    assert differing_step(first, first[:1]) is None
    steps = Item(12), Item("12"), Item(-1), Item(True), Attribute("w")
    assert [index_of(step) for step in steps] == [12, None, None, None, None]


def test_words_name_parts():
    assert last_word(words_of((Item("layers"), Item(0)))) == "layer"
    assert last_word(words_of((Item(0),))) == "value"
    assert first_word(words_of((Item(0), Item("params"), Item("dense")))) == "params"


def test_parts_of_values_and_of_their_trees():
    value = {"a": [1.0, (2.0, Color.RED)], Color.RED: 3.0}
    assert part_of(value, (Item("a"), Item(1), Item(0))) == 2.0
    assert part_of(value, (Item(Color.RED),)) == 3.0
    assert part_of(value, (Item("a"), Slice(1))) == [(2.0, Color.RED)]
    assert part_of(value, (Attribute("a"),)) is None
    tree = describe({"b": 1.0, "a": [2.0, 3.0]})
    paths = dict(leaf_paths(tree))
    assert paths == {0: (Item("a"), Item(0)), 1: (Item("a"), Item(1)), 2: (Item("b"),)}
    assert all(part_at(tree, path).index == i for i, path in paths.items())
    assert part_at(tree, (Item("b"), Item(0))) is None
    assert list(accessors(tree, "x"))[1] == (1, 'x["a"][1]', ("a", "1"))
