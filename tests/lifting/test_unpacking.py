"""What the user's functions unpack of their parameters has the names that they use."""

import inspect
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.lifting.test_containers import recover

X = np.linspace(0.1, 1.0, 6, dtype=np.float32).reshape(2, 3)
W = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(3, 4)
PARAMS = {
    "first": (W, W[0]),
    "second": ((W[1], 2.0), 3.0),
    "rates": [1.0, 2.0, 3.0],
    "more": [4.0, 5.0, 6.0],
}


def keys(params, x):
    w, b = params["first"]
    (u, v), k = params["second"]
    return jnp.tanh(x @ w + b) @ u * k + v


def a_slice(params, x):
    a, b = params["rates"][1:]
    return x * a + b * jnp.sin(a)


def both_ends(params, x):
    x = jnp.cos(x)
    a, b = params["rates"][:-1]
    c, d = params["more"][0:3:2]
    return x * a + b * jnp.sin(c) - d


def one_is_not_read(params, x):
    w, _ = params["first"]
    return x @ w @ w.T


@pytest.mark.parametrize("function", [keys, a_slice, both_ends, one_is_not_read])
def test_parts_of_parameters_are_unpacked(function):
    body = inspect.getsource(function).partition(":\n")[2].splitlines()
    text = recover(function, PARAMS, X)
    assert {*body} <= {*text.splitlines()}, text
    inner = recover(lambda params, x: function(params, jnp.cos(x)), PARAMS, X)
    assert {*body} <= {*inner.splitlines()}, inner


LAYERS = [(np.eye(3, dtype=np.float32), X[0]) for _ in range(3)]


def behind_a_loop(layers, x):
    for w, b in layers[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = layers[-1]
    return x @ w + b


def between_loops(layers, x):
    y = jnp.sin(x)
    for w, b in layers:
        y = y @ w + b
    u, v = layers[0]
    return y @ u + v


def in_a_loop(layers, x):
    for _ in range(3):
        w, b = layers[1]
        x = jnp.tanh(x @ w + b)
    return x


@pytest.mark.parametrize("function", [behind_a_loop, between_loops])
def test_parameters_are_unpacked_where_the_source_does_so(function):
    body = inspect.getsource(function).partition(":\n")[2].rstrip()
    assert body in recover(function, LAYERS, X)
    inner = recover(lambda p, x: function(p, jnp.cos(x)), LAYERS, X)
    assert body in inner, inner


def test_what_every_turn_unpacks_is_unpacked_once_before():
    text = recover(in_a_loop, LAYERS, X)
    assert "    w, b = layers[1]\n    for _ in range(3):\n" in text, text


def a_local(params, x):
    pair = split(x)
    x, v = pair
    for _ in range(3):
        both = split(x + v)
        x, v = both
    return x * 2 + v


def part_of_a_local(params, x):
    nested = jax.lax.cond(x.sum() > 0, lambda: (split(x), x), lambda: (split(-x), x))
    left, right = nested[0]
    return left * right + nested[1]


def split(x):
    return jnp.sin(x), jnp.cos(x) * x


@pytest.mark.parametrize(
    ("function", "lines"),
    [
        (a_local, ["    x, v = split(x)", "        x, v = split(x + v)"]),
        (part_of_a_local, ["    left, right = nested[0]"]),
    ],
)
def test_what_calls_return_is_unpacked_as_in_the_source(function, lines):
    text = recover(function, PARAMS, X)
    assert {*lines} <= {*text.splitlines()}, text


def test_a_variable_that_is_given_another_value_is_not_unpacked_by_name():
    def f(params, x):
        pair = split(x)
        if params is None:
            pair = split(x + 1)
        left, right = pair
        return left * right + left

    assert "left, right = " not in recover(f, PARAMS, X)


def test_items_of_an_iterator_are_called_as_they_are_unpacked():
    def f(params, x):
        i, j = map(jnp.array, zip(*[(0, 1), (1, 0), (1, 1)]))
        return x[i] * x[j] + x[j]

    text = recover(f, PARAMS, X)
    assert "x[i] * x[j] + x[j]" in text, text


def test_parts_that_are_passed_on_are_passed_as_a_whole():
    def dense(p, x):
        w, b = p
        return jnp.tanh(x @ w + b) * w.sum() + b

    def f(params, x):
        w, _ = params["first"]
        return dense(params["first"], x) + w.max()

    text = recover(f, PARAMS, X)
    assert 'dense(params["first"], x)' in text and "    w, b = p\n" in text, text


def test_a_part_of_another_length_is_not_unpacked():
    def f(params, x):
        if len(params["rates"]) == 2:
            a, b = params["rates"]
        else:
            a, b = params["rates"][0], params["rates"][2]
        return x * a + b * a

    assert 'params["rates"][2]' in recover(f, PARAMS, X)


def test_a_parameter_that_holds_something_else_by_then_is_not_unpacked():
    def f(params, x):
        w = params["first"][1][:3]
        params = {"first": (w * 2, w + x)}
        u, v = params["first"]
        return x * u + v

    assert 'params["first"][1]' in recover(f, PARAMS, X)


def shifted(x, d=0):
    n, _, m, _ = x.shape
    start = 1 + d
    x = jnp.pad(x, ((1, 1), (0, 0), (1, 1), (0, 0)))
    return x[start : start + n, :, start : start + m, :]


def test_sizes_that_have_no_name_have_none():
    def f(x, y):
        return shifted(x) + shifted(x, 1), shifted(y, -1)

    text = recover(f, np.ones((4, 2, 3, 2), "f"), np.ones((5, 2, 6, 2), "f"))
    assert "n, _, m, _ = x.shape" in text, text


def test_what_was_unpacked_is_unpacked_again():
    def f(state, x):
        opt, params = state
        m, v = opt
        y = m * x
        w, q = params
        return y + v * w, q

    def step(carry, _):
        i, *state = carry
        s, t = state
        return (i + 1, s * t, t), s

    def g(x):
        return jax.lax.scan(step, (0, x, x + 1), None, length=3)

    x = jnp.arange(3.0)
    text = recover(f, ((x, x), (x, x)), x)
    assert "    opt, params = state\n    m, v = opt\n    y = m * x\n" in text
    assert "    w, q = params\n    return y + v * w, q\n" in text
    text = recover(g, x)
    assert "    i, *state = carry\n    s, t = state\n" in text


def test_inner_functions_unpack_what_they_close_over():
    def lstm(params, xs):
        def cell(carry, x):
            h, c = carry
            (wi, wh), b = params
            i, f, g, o = jnp.split(x @ wi + h @ wh + b, 4)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        start = jnp.zeros(3), jnp.zeros(3)
        return jax.lax.scan(cell, start, xs)

    wide = jnp.ones((3, 12))
    text = recover(lstm, ((wide, wide), jnp.ones(12)), jnp.ones((5, 3)))
    assert "        h, c = carry\n        (wi, wh), b = params\n" in text
    assert "jnp.split(x @ wi + h @ wh + b, 4)" in text


def test_what_is_closed_over_may_be_another_value_later():
    def f(pair, other, x):
        def inner(y):
            u, v = pair
            return y * u + v

        first = jax.vmap(inner)(x)
        pair = other
        return first + jax.vmap(inner)(x)

    x = jnp.arange(3.0)
    recover(f, (x[0], x[1]), (x[2], x[1]), x)


def of_fields(state, params):
    axial = state.x
    w = params["w"]
    speed = state.v
    y = jnp.sin(axial) @ w
    z = jnp.cos(axial) + y @ w
    return z * speed


def behind_a_loop(state, params):
    w = params["w"]
    x = state.x
    for _ in range(3):
        x = jnp.tanh(x @ w)
    v = state.v
    return x * v + v.sum() + w.sum()


class Moving(NamedTuple):
    x: jax.Array
    v: jax.Array


def test_parts_that_are_read_twice_have_the_names_of_the_program():
    state = Moving(np.ones(4, np.float32), np.ones(4, np.float32))
    args = state, {"w": np.eye(4, dtype=np.float32)}
    src = untrace.source(of_fields)(*args)
    assert src.report.strength == "identical", str(src.report)
    own = inspect.getsource(of_fields).replace("    speed = state.v\n", "")
    assert own.replace("z * speed", "z * state.v") in src.text, src.text
    src = untrace.source(behind_a_loop)(*args)
    assert src.report.strength == "identical", str(src.report)
    assert "    v = state.v\n    return x * v + v.sum() + w.sum()\n" in src.text
    assert '    w = params["w"]\n    for _ in range(3):' in src.text, src.text
