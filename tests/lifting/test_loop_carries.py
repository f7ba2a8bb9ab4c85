"""Values that turns hand on come back as the program's variables."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

X = np.linspace(0.1, 1.0, 16, dtype=np.float32).reshape(4, 4)


def recover(function, *args, **options):
    src = untrace.source(function, **options)(*args)
    assert src.report.strength in ("identical", "equivalent"), str(src.report)
    return str(src)


def fibonacci(x):
    a, b = x, x * 2
    for _ in range(6):
        a, b = b, a + b
    return b


def both_results(x):
    a, b = x, jnp.cos(x)
    for _ in range(5):
        a, b = b, jnp.sin(a) * b
    return a, b


def leapfrog(x, force):
    before, now = x, x * 2
    for _ in range(5):
        after = 2 * now - before + 0.1 * jnp.sin(now) * force
        before, now = now, after
    return now


def chebyshev(x):
    t0, t1 = jnp.ones_like(x), x
    total = t0 + t1
    for k in range(2, 6):
        t2 = 2 * x * t1 - t0
        total = total + t2 / k
        t0 = t1
        t1 = t2
    return total


def late_old_value(x):
    a, b, total = x, x * 2, jnp.zeros_like(x)
    for _ in range(5):
        a, b = b, a * 2 + b
        total = jnp.sin(total) + a
    return total, b


def swapped(x):
    a, b = x, jnp.cos(x)
    for _ in range(5):
        a, b = b, a
        a = jnp.sin(a) + b
    return a, b


def coupled(scales, x):
    left, right = x[:2], x[2:]
    for scale in scales:
        left, right = right, left + jnp.tanh(right * scale)
    return jnp.concatenate([left, right])


def from_a_literal(x):
    a, b = 0.0, x
    for _ in range(5):
        a, b = b, jnp.sin(b) + a
    return a, b


def all_values(x):
    a, b = x, x * 2
    values = []
    for _ in range(6):
        a, b = b, jnp.sin(a) * jnp.cos(b)
        values.append(b)
    return jnp.stack(values)


def all_values_and_the_last(x):
    a, b = x, x * 2
    values = []
    for _ in range(6):
        a, b = b, jnp.sin(a) * jnp.cos(b)
        values.append(b)
    return values, a


def some_values(x):
    a, b = x, x * 2
    values = []
    for i in range(6):
        a, b = b, jnp.sin(a) * jnp.cos(b)
        if i % 2:
            values.append(b)
    return values, a


def three_back(x):
    a, b, c = x, x * 2, x + 1
    for _ in range(5):
        a, b, c = b, c, a + jnp.sin(b) * c
    return a, b, c


def too_late(x):
    a, b = x, x * 2
    total = x
    for _ in range(5):
        c = jnp.sin(b) + a
        total = total * a
        a, b = b, c
    return total, b


def conjugate_gradients(matrix, diagonal, b):
    def precondition(v):
        return v / diagonal

    x = jnp.zeros_like(b)
    r = b - matrix @ x
    z = precondition(r)
    p = z
    rz = jnp.dot(r, z)
    for _ in range(4):
        product = matrix @ p
        alpha = rz / jnp.dot(p, product)
        x = x + alpha * p
        r = r - alpha * product
        z = precondition(r)
        rz_new = jnp.dot(r, z)
        beta = rz_new / rz
        p = z + beta * p
        rz = rz_new
    return x, p


def verlet(x, v):
    a = jnp.sin(x)
    for _ in range(5):
        x = x + 0.1 * v + 0.005 * a
        a_new = jnp.sin(x)
        v = v + 0.05 * (a + a_new)
        a = a_new
    return x, v


def barzilai_borwein(matrix, b, x):
    g = matrix @ x - b
    step = 0.1
    for _ in range(4):
        x_new = x - step * g
        g_new = matrix @ x_new - b
        s, y = x_new - x, g_new - g
        step = jnp.dot(s, s) / jnp.dot(s, y)
        x, g = x_new, g_new
    return x, g


@pytest.mark.parametrize(
    ("function", "args", "lines"),
    [
        (
            barzilai_borwein,
            (X @ X.T, X[0], X[1]),
            ["step = 0.1\n    for _ in range(4):", "        g = g_new\n"],
        ),
        (
            conjugate_gradients,
            (X @ X.T, X[0] + 1.0, X[1]),
            ["for _ in range(4):", "beta = rz_new / rz\n", "        rz = rz_new\n"],
        ),
        (
            verlet,
            (X, X + 1.0),
            ["for _ in range(5):", "v = v + 0.05 * (a + a_new)", "        a = a_new\n"],
        ),
    ],
)
def test_variables_that_get_their_new_values_last(function, args, lines):
    text = recover(function, *args)
    for line in lines:
        assert line in text, text
    assert text.count("jnp.sin(") + text.count("jnp.dot(") <= 3, text
    recover(jax.jit(function), *args)


@pytest.mark.parametrize(
    ("function", "args", "lines"),
    [
        (fibonacci, (X,), ["for _ in range(6):", "a, b = b, a + b"]),
        (
            both_results,
            (X,),
            ["range(5):", "a, b = b, jnp.sin(a) * b", "return a, b"],
        ),
        (
            leapfrog,
            (X, X + 1),
            ["for _ in range(5):", " = after, 2 * after - before + "],
        ),
        (chebyshev, (X,), ["for k in range(2, 6):", "t0, t2 = t2, 2 * x * t2 - t0"]),
        (late_old_value, (X,), ["a, b = b, a * 2 + b", "jnp.sin(total) + a"]),
        (swapped, (X,), ["for _ in range(5):", "b, a = a, jnp.sin(b) + a"]),
        (
            coupled,
            ([X[:2], X[2:], X[1:3], X[:2]], X),
            ["for scale in scales:", "left, right = right, left + jnp.tanh("],
        ),
        (from_a_literal, (X,), ["a, b = b, jnp.sin(b) + a"]),
        (all_values, (X,), ["values.append(b)", "a, b = b, jnp.sin(a) * "]),
        (all_values_and_the_last, (X,), []),
        (some_values, (X,), []),
        (three_back, (X,), []),
        (too_late, (X,), []),
    ],
)
def test_values_of_two_turns_before(function, args, lines):
    text = recover(function, *args)
    for line in lines:
        assert line in text, text
    recover(jax.jit(function), *args)

    def loss(*given):
        return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(function(*given)))

    recover(jax.grad(loss), *args)
    plain = untrace.source(function, reroll="none")(*args)
    assert plain.report.is_verified and " for " not in str(plain).partition("def ")[2]


def step(a, b, scale=1.0):
    return jnp.sin(a) * scale, a * b


class State(NamedTuple):
    position: jax.Array
    speed: jax.Array


def moved(position, speed, force):
    return State(position + speed, speed - force * position)


def starred(x):
    state = (x, x + 1)
    for _ in range(5):
        state = step(*state)
    return state


def starred_and_more(x, forces):
    state = State(x, x + 1)
    for force in forces:
        state = moved(*state, force)
    return state.position


def starred_behind(weights, x):
    def cell(weights, hidden, memory, x):
        memory = jnp.tanh(x @ weights) * memory
        return hidden + jnp.sin(memory), memory

    state = (jnp.zeros(4), jnp.ones(4))
    for i in range(3):
        state = cell(weights, *state, x[i])
    return state[0]


def starred_once(x):
    pair = (x, jnp.cos(x))
    return step(*pair, scale=2.0)


def not_starred(x):
    state = (x, x + 1)
    for _ in range(5):
        state = step(state[0], state[1])
    return state


def starred_the_other_way(x):
    state = (x, x + 1)
    for _ in range(5):
        state = step(*state[::-1])
    return state


@pytest.mark.parametrize(
    ("function", "args", "lines"),
    [
        (starred, (X,), ["state = (x, x + 1)", "(5):", "state = step(*state)"]),
        (
            starred_and_more,
            (X, [X, X + 1, X + 2]),
            ["for force in forces:", "state = moved(*state, force)"],
        ),
        (
            starred_behind,
            (X, X),
            ["state = (jnp.zeros(4), jnp.ones(4))", "cell(weights, *state, x[i])"],
        ),
        (starred_once, (X,), []),
        (not_starred, (X,), ["step(state[0], state[1])"]),
        (starred_the_other_way, (X,), []),
    ],
)
def test_tuples_that_are_passed_with_a_star(function, args, lines):
    text = recover(function, *args)
    for line in lines:
        assert line in text, text
    recover(jax.jit(function), *args)


def test_a_star_under_vmap_and_grad():
    def mapped(x):
        return jax.vmap(lambda row: jnp.sum(starred(row)[1]))(x)

    assert "state = step(*state)" in recover(mapped, X)
    assert "state = step(*state)" in recover(jax.grad(lambda x: mapped(x).sum()), X)


GAMMA = 0.97


def momentum(x):
    v = 0.0
    for _ in range(4):
        v = 0.9 * v - 0.1 * jnp.cos(x)
        x = x + v
    return x


def returns(xs):
    total = 0.0
    for x in xs[::-1]:
        total = x + GAMMA * total
    return total


def two_averages(xs):
    m, v = 0.0, 0.0
    for x in xs:
        m = 0.9 * m + 0.1 * x
        v = 0.99 * v + 0.01 * x**2
    return m / jnp.sqrt(v)


@pytest.mark.parametrize(
    ("function", "lines"),
    [
        (momentum, ["v = 0.0", "for _ in range(4):", "v = 0.9 * v - 0.1 * jnp.cos(x)"]),
        (returns, ["total = 0.0", "total = x + GAMMA * total"]),
        (two_averages, ["m = 0.9 * m + 0.1 * x", "v = 0.99 * v + 0.01 * x**2"]),
    ],
)
def test_first_turns_that_python_has_computed_a_part_of_are_turns(function, lines):
    xs = jnp.ones(3) if function is momentum else [jnp.ones(3) * i for i in range(5)]
    src = untrace.source(function)(xs)
    assert src.report.strength == "identical", str(src.report)
    found = [line.strip() for line in str(src).splitlines()]
    assert all(found.count(line) == 1 for line in lines), str(src)


def test_numbers_of_first_turns_stay_where_there_is_no_loop():
    def step(x, t):
        y = x + 0.5 * t
        return jnp.sin(y) * y

    src = untrace.source(lambda x: step(x, 0.0) + x + 0.5 * jnp.sum(x))(jnp.ones(3))
    assert "0.5 * 0.0" not in str(src) and src.report.strength == "identical"


def waves(x):
    previous = current = x
    for _ in range(4):
        new = 2 * current - previous + 0.1 * jnp.roll(current, 1)
        previous, current = current, new
    return current


def moments(x):
    m = v = jnp.zeros_like(x)
    for _ in range(3):
        m = 0.9 * m + 0.1 * x
        v = 0.99 * v + 0.01 * x * x
        x = x - m / (jnp.sqrt(v) + 1e-8)
    return x


def conjugate(x):
    r = p = x - jnp.roll(x, 1)
    for _ in range(4):
        alpha = (r @ r) / (p @ p)
        x = x + alpha * p
        r = r - alpha * jnp.roll(p, 1)
        p = r + alpha * p
    return x


@pytest.mark.parametrize(
    ("function", "lines"),
    [
        (waves, ["for _ in range(4):", "return new"]),
        (moments, ["m = 0.9 * m + 0.1 * x", "v = m", "for _ in range(3):"]),
        (conjugate, ["r = r - alpha * jnp.roll(p, 1)", "p = r + alpha * p", "p = r"]),
    ],
)
def test_variables_may_begin_as_one(function, lines):
    src = untrace.source(function)(jnp.ones(3) * 2)
    assert src.report.strength == "identical", str(src.report)
    found = [line.strip() for line in str(src).splitlines()]
    assert all(found.count(line) == 1 for line in lines), str(src)
    assert "_2" not in src.module.body, str(src)
