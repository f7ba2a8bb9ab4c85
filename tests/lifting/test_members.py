"""Members of containers that stand in a row, and tuples that only wrappers returned."""

import jax.numpy as jnp
import numpy as np

import untrace
from tests.lifting.installed import library
from untrace.lifting.recorded.building import call, display, text_term
from untrace.lifting.recorded.terms import Name, Ref
from untrace.lifting.recorded.terms import Term as T
from untrace.syntax.steps import Attribute, Item

X = np.arange(4.0, dtype=np.float32)


def recover(function, *args):
    source = untrace.source(function)(*args)
    assert source.report.is_verified
    return str(source)


def members(name, *indices):
    return [T([Ref(name, (Item(i),))]) for i in indices]


def test_many_members_in_order_are_written_as_a_part():
    x, y = Name("x"), text_term("y")
    assert call(T(["f"]), [y, *members(x, 1, 2, 3, 4)]).render() == "f(y, *x[1:5])"
    assert call(T(["f"]), members(x, 0, 1, 2, 3)).render() == "f(*x[:4])"
    assert display("()", members(x, 1, 2, 3, 4)).render() == "(*x[1:5],)"
    assert display("[]", [*members(x, 0, 1, 2, 3), y]).render() == "[*x[:4], y]"


def test_all_members_are_the_whole():
    x = Name("x", held=(1, 2, 3))
    assert call(T(["f"]), members(x, 0, 1, 2)).render() == "f(*x)"
    assert call(T(["f"]), members(x, 0, 1)).render() == "f(x[0], x[1])"


def test_items_of_dicts_are_no_members_in_order():
    x = Name("x", held={i: i for i in range(5)})
    assert (
        call(T(["f"]), members(x, 0, 1, 2, 3)).render() == "f(x[0], x[1], x[2], x[3])"
    )
    params = {"blocks": {i: X * i for i in range(4)}}
    text = recover(lambda p: jnp.stack([p["blocks"][i] for i in range(4)]), params)
    assert "Written from its equations" not in text and "*p" not in text


def test_few_members_others_and_expressions_stay():
    x, y = Name("x"), Name("y")
    mixed = [*members(x, 0, 1, 2), *members(y, 3, 4)]
    assert display("[]", mixed).render() == "[x[0], x[1], x[2], y[3], y[4]]"
    assert display("[]", members(x, 3, 2, 1, 0)).render() == "[x[3], x[2], x[1], x[0]]"
    attributes = [T([Ref(x, (Item(i), Attribute("w")))]) for i in range(4)]
    shown = display("[]", attributes).render()
    assert shown == "[x[0].w, x[1].w, x[2].w, x[3].w]"


def test_what_only_wrappers_returned_is_unpacked_as_far_as_it_is_needed():
    layers = library("""
def step(x, y):
    total = jnp.sin(x) * jnp.cos(y) + jnp.tanh(x)
    total = total / jnp.sum(jnp.exp(total)) + jnp.sqrt(jnp.abs(y))
    error = jnp.max(jnp.abs(total)) * jnp.mean(jnp.exp(y) - total)
    unused = jnp.expm1(total)
    return total, unused, error

class Stepper:
    def step(self, x, y):
        return step(x, y)

def run(x, y):
    stepper = Stepper()
    first, unused, error = stepper.step(x, y)
    second, unused, gap = stepper.step(jnp.sin(first) * error, y * 2.0)
    return first * second - gap * error
""")
    text = recover(lambda x, y: layers.run(x, y), X, X)
    assert "first, error = step(" in text and "second, gap = step(" in text
    assert "expm1" not in text.partition('"""\n\n')[2]  # the verdict names it


def test_scalars_of_a_library_are_written_as_such():
    layers = library("def two(x): return x * np.array(2, np.int32) + np.bool_(True)")
    text = recover(lambda x: layers.two(x), X)
    assert "x * np.int32(2) + True" in text


def test_objects_of_one_field_are_made_by_position():
    layers = library("""
import collections
Trace = collections.namedtuple("Trace", ["trace"])
Pair = collections.namedtuple("Pair", ["first", "second"])
def update(x, state): return Trace(x * 0.9 + state.trace), Pair(x, state.trace)
""")
    text = recover(lambda x, state: layers.update(x, state), X, layers.Trace(X))
    assert "Trace(x * 0.9 + state.trace)" in text
    assert "Pair(first=x, second=state.trace)" in text


class Weighted:
    def __init__(self, weights):
        self.weights = weights

    def scaled(self, x, y):
        return joined(x, *self.weights) * jnp.sin(y) + jnp.tanh(x)


def joined(x, a, b, c, d):
    return x * a * b + c * d


def test_all_members_of_what_a_caller_holds_are_the_whole():
    def program(weights, x):
        weighted = Weighted(weights)
        return weighted.scaled(x, x) + weighted.scaled(x + 1, x)

    text = recover(program, tuple(map(np.float32, range(4))), np.float32(2.0))
    assert "joined(x, *weights)" in text
