"""Values of a turn have the name of the variable that they become, if it is free."""

import inspect

import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.lifting.recorded.repeats.turn_names import taken_up
from untrace.lifting.recorded.terms import Name, Ref, Term
from untrace.lifting.recorded.tree import Loop, Statement


def assigned(target: Name, *read: Name) -> Statement:
    parts = [part for name in read for part in (Ref(name), " + ")]
    return Statement(target, Term([*parts, "1"]))


def test_values_take_the_name_of_the_variable_that_they_become() -> None:
    value, variable = Name("x"), Name("x")
    variable.text = "x"
    body = [assigned(value, variable), assigned(variable, value)]
    found = taken_up(Loop((), Term(["xs"]), body), 1, {"x": variable})
    assert found == {id(value): variable}


def test_a_variable_does_not_take_the_name_of_another() -> None:
    """Both had one name, and the loop was another program (a step of jax-cfd)."""
    one, other = Name("x"), Name("x")
    one.text, other.text = "x", "x_2"
    body = [assigned(one, one), assigned(other, one)]
    holders = {"x": one, "x_2": other}
    assert taken_up(Loop((), Term(["xs"]), body), 1, holders) == {}


def test_values_take_the_name_of_what_the_loop_is_over() -> None:
    """Unless it is read again in the turn, or they are read in the next one, or later."""
    value, item = Name("s"), Name("s", uses=1)
    body = [assigned(value, item), assigned(Name("y"), value)]
    assert taken_up(Loop((item,), Term(["xs"]), body), 0, {}) == {id(value): item}
    again = [assigned(value, item), assigned(Name("y"), item, value)]
    assert taken_up(Loop((item,), Term(["xs"]), again), 0, {}) == {}
    carried = [assigned(Name("y"), value), assigned(value, item)]
    assert taken_up(Loop((item,), Term(["xs"]), carried), 0, {}) == {}
    value.last_use = 3
    assert taken_up(Loop((item,), Term(["xs"]), body), 0, {}) == {}
    value.last_use, item.uses = -1, 0  # it has no name then
    assert taken_up(Loop((item,), Term(["xs"]), body), 0, {}) == {}


def refined(params, x):
    for p in params:
        h = x @ p
        h = jnp.tanh(h)
        h = h + p[0]
        x = x + h
    return x


def guided(params, x):
    for p in params:
        out = jnp.tanh(x @ p)
        base = jnp.cos(x @ p)
        out = base + 2.0 * (out - base)
        x = x - 0.1 * out
    return x, out


def in_inner_turns(params, y):
    for p in params:
        y = y * 2
        for _ in range(3):
            h = jnp.tanh(y @ p)
            h = h + p[0]
            y = y + h
    return y


def still_read(params, x):
    for p in params:
        h = x @ p
        k = h
        h = jnp.tanh(h)
        x = x + h * k
    return x


@pytest.mark.parametrize("function", [refined, guided, in_inner_turns, still_read])
def test_values_of_a_turn_are_called_like_earlier_ones(function):
    args = [np.eye(4, dtype=np.float32)] * 3, np.ones(4, np.float32)
    src = untrace.source(function)(*args)
    assert src.report.strength == "identical", str(src.report)
    body = inspect.getsource(function).partition(":\n")[2]
    assert (body in src.text) is (function is not still_read), src.text
