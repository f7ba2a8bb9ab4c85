"""Level "api": floats are written as people write them, and stay the same floats."""

import math
import random

import jax
import jax.numpy as jnp
import pytest

import untrace
from untrace.lifting.recorded.numbers.number_texts import readable

CASES = {
    "x * 6.283185307179586": "x * (2 * jnp.pi)",
    "6.283185307179586 * x": "2 * jnp.pi * x",
    "y + 0.3333333333333333 * x": "y + 1 / 3 * x",
    "x**0.3333333333333333": "x**(1 / 3)",
    "x**-0.3333333333333333": "x**-(1 / 3)",
    "f(0.09999999999999998, -1.5707963267948966)": "f(1 - 0.9, -jnp.pi / 2)",
    "0.0010000000000000009 * g**2": "(1 - 0.999) * g**2",
    "return x > 3.141592653589793": "return x > jnp.pi",
    'where(m, x, float("-inf"))': "where(m, x, -jnp.inf)",
    "full(8, -1000000000.0)": "full(8, -1e9)",
    'p["6.283185307179586"]': 'p["6.283185307179586"]',
    "x * 0.1 + 1e-05": "x * 0.1 + 1e-05",
    "x * 0.7071067811865476": "x * 0.7071067811865476",
}


@pytest.mark.parametrize("line", CASES)
def test_a_line(line):
    assert readable(line, lambda: "jnp", {}) == CASES[line]


def test_every_text_is_the_same_float():
    chosen = random.Random(0)
    scope = {"jnp": jnp, "x": 1.7, "math": math}
    for _ in range(400):
        value = chosen.choice(
            [
                chosen.randint(1, 30) / chosen.randint(3, 30),
                1 - chosen.randint(1, 999) / 1000,
                math.pi * chosen.randint(1, 4) / chosen.randint(1, 4),
                float(chosen.randint(10**7, 10**12)),
            ]
        )
        for text in ("{} * x", "x - {}", "-{} / x", "x / {}", "x * -{}", "x ** -{}"):
            line = text.format(value)
            better = readable(line, lambda: "jnp", {})
            assert eval(better, dict(scope)) == eval(line, dict(scope)), better


def test_what_a_named_number_leaves_of_one():
    class Config:
        momentum = 0.99

    def f(x, old):
        config = Config()
        for _ in range(2):
            old = config.momentum * old + (1 - config.momentum) * jnp.sin(x)
        return old

    def rest(x):  # another 0.99
        return jnp.cos(x * x) + (1 - 0.99) * jnp.sin(x) + jnp.tanh(x) / jnp.cosh(x)

    text = str(untrace.source(lambda x, y: f(rest(x), rest(y)))(1.0, 2.0))
    assert "old = MOMENTUM * old + (1 - MOMENTUM) * jnp.sin(x)" in text
    assert "+ (1 - 0.99) * jnp.sin(x)" in text


def test_a_program_and_its_key():
    def f(x, key):
        angle = x * 2 * jnp.pi * jax.random.uniform(key)
        return jnp.where(angle > 1e10, -jnp.inf, angle ** (1 / 3))

    src = untrace.source(f)(1.0, jax.random.key(7))
    assert src.report.strength == "identical"
    text = str(src)
    assert "jnp.where(angle > 1e10, -jnp.inf, angle ** (1 / 3))" in text
    assert "key = jax.random.key(7)" in text
