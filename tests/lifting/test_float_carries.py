"""Floats that turns of a loop hand on are computed from turn to turn, as in the program."""

import jax
import jax.numpy as jnp
import pytest

import untrace

X = jnp.linspace(0.1, 1.0, 9).reshape(3, 3)


def decaying(w, x):
    rate = 0.1
    for _ in range(5):
        w = w - rate * jax.grad(lambda w: jnp.sum((x @ w) ** 2))(w)
        rate = rate * 0.9
    return w


def of_parameter(w, x, rate=0.1, gamma=0.95):
    for _ in range(5):
        w = w - rate * jnp.tanh(x @ w)
        rate *= gamma
    return w


def descend(w, x, rate):
    for _ in range(4):
        w = w - rate * jnp.tanh(x @ w)
        rate *= 0.8
    return w


def of_two_rates(w, x):
    return descend(descend(w, x, 0.1), x, 0.3)


def cooling(w, x):
    temperature = 10.0
    while temperature > 1.0:
        w = jax.nn.softmax(w / temperature)
        temperature /= 2
    return w @ x


def rising(w, x):
    t = 0.25
    for _ in range(4):
        w = jnp.sin(w * t) + x
        t = t + 0.125
    return w


def listed(w, x):
    for rate in (0.4, 0.2, 0.1):
        w = w - rate * jnp.tanh(x @ w)
    return w


def of_steps(w, x):
    n = 8
    for i in range(n):
        t = i / n
        w = w - t * jnp.tanh(x @ w)
    return w


CASES = {
    decaying: ["rate = 0.1", "for _ in range(5):", "rate = rate * 0.9"],
    of_parameter: ["for _ in range(5):", "rate = rate * 0.95"],
    of_two_rates: [
        "def descend(w, x, rate):",
        "rate = rate * 0.8",
        "return descend(descend(w, x, 0.1), x, 0.3)",
    ],
    cooling: ["temperature = 10.0", "temperature = temperature * 0.5"],
    rising: ["t = 0.25", "t = t + 0.125"],
    listed: ["for rate in (0.4, 0.2, 0.1):"],
    of_steps: ["w = w - (i / 8) * jnp.tanh(x @ w)"],
}


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_floats_are_computed_from_turn_to_turn(function):
    src = untrace.source(function)(X, X + 1)
    assert src.report.strength == "identical", str(src.report)
    found = [line.strip() for line in str(src).splitlines()]
    assert all(found.count(line) == 1 for line in CASES[function]), str(src)
