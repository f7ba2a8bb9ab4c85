"""Numbers that repeat have the names of the user's source, and only those."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.lifting.functions import function
from untrace.lifting.recorded import listing
from untrace.lifting.recorded.numbers.numbers import Numbers
from untrace.syntax.names import Scope

X = np.linspace(0.1, 1.0, 12, dtype=np.float32).reshape(3, 4)

EPS = 1e-6
RATE = 3e-4
NEGATIVE = -1e9
rate, two = 3e-4, 2.0
LOWEST = float("-inf")
VOCABULARY = 50257
HEADS, STEPS, n = 4, 5, 3
LEARNING_RATE = 1e-3
TOLERANCE = 1e-3


class Config:
    rate, negative, negative_power = 3e-4, -1e9, -2.5


def recover(function, *args, **options):
    src = untrace.source(function, **options)(*args)
    assert src.report.strength == "identical", str(src.report)
    return str(src)


def normalize(x):
    centred = x - x.mean()
    return centred / jnp.sqrt((centred**2).mean() + EPS)


def test_repeated_global_is_named():
    text = recover(lambda x: normalize(x) + jnp.log(x + EPS), X)
    assert "\nEPS = 1e-06\n" in text
    assert text.count("+ EPS)") == 2


def test_number_written_once_stays_unless_it_is_a_variable_of_the_module():
    text = recover(lambda x: x * Config.rate, X)
    assert "x * 0.0003" in text and "RATE" not in text
    text = recover(lambda x: (x * rate - two) / (3.5 - two), X)
    assert "\nrate = 0.0003\ntwo = 2.0\n" in text
    assert "(x * rate - two) / (3.5 - two)" in text
    text = recover(normalize, X)
    assert "\nEPS = 1e-06\n" in text and "+ EPS)" in text


def test_number_written_once_is_found_without_writing_again(monkeypatch):
    writings = []
    lift = listing._lift
    monkeypatch.setattr(listing, "_lift", lambda *a: writings.append(a) or lift(*a))
    text = recover(lambda x: normalize(x) * Config.rate + jnp.log(x + EPS), X)
    assert "\nEPS = 1e-06\n" in text
    assert "* 0.0003 + jnp.log(" in text
    assert len(writings) == 1


def test_number_written_once_keeps_its_sign_in_parentheses():
    text = recover(lambda x: x * Config.negative + Config.negative_power**x, X)
    assert "x * -1e9 + (-2.5) ** x" in text
    functions = [function("f", "x", *["return LOW ** x + HIGH * x, 'LOW', x.LOW"])]
    numbers = Numbers(Scope(), set(), True)
    for name, value in {"low": -2.5, "high": 7.5}.items():
        numbers.term(value, str(value), name)
    numbers.inline_single_uses(functions)
    assert functions[0].lines == ["return (-2.5) ** x + 7.5 * x, 'LOW', x.LOW"]
    assert numbers.definitions() == []


def test_number_without_a_name_stays():
    def gelu(x):
        return jnp.tanh(x + 0.044715 * x**3) + 0.044715

    text = recover(gelu, X)
    assert text.count("0.044715") == 2


def test_locals_parameters_and_attributes_name_numbers():
    class Config:
        weight_decay = 3e-2

    def step(x, momentum=0.9):
        rate = 1e-4
        config = Config()
        x = x * momentum - rate * x - config.weight_decay * x
        return x * momentum - rate * x - config.weight_decay * x

    text = recover(step, X)
    assert "\nWEIGHT_DECAY = 0.03\n" in text
    assert "    rate = 0.0001\n" in text and "    momentum = 0.9\n" in text
    assert "x = x * momentum - rate * x" in text


def test_infinities_large_numbers_and_negative_ones_are_named():
    def masked(x):
        x = jnp.where(x > 0.3, x, LOWEST) + jnp.where(x > 0.4, x, NEGATIVE)
        x = jnp.where(x > 0.3, x, LOWEST) + jnp.where(x > 0.4, x, NEGATIVE)
        return x + VOCABULARY - x**NEGATIVE * VOCABULARY

    text = recover(masked, X)
    assert '\nLOWEST = float("-inf")\nNEGATIVE = -1000000000.0\n' in text
    assert "x + VOCABULARY - x**NEGATIVE * VOCABULARY" in text


def test_one_number_with_two_roles_has_two_names():
    def step(x):
        x = x - LEARNING_RATE * jnp.where(x > TOLERANCE, x, 0)
        return x - LEARNING_RATE * jnp.where(x > TOLERANCE, x, 0)

    text = recover(step, X)
    assert "\nTOLERANCE = 0.001\nLEARNING_RATE = 0.001\n" in text
    assert text.count("LEARNING_RATE *") == text.count("x > TOLERANCE") == 2


def test_two_numbers_of_one_name_stay():
    def step(x):
        for decay in (0.95, 0.85):
            x = x * decay + x
            x = x * decay - x
        return x

    text = recover(step, X)
    assert "DECAY" not in text
    assert "for decay in (0.95, 0.85):" in text


def test_name_that_also_held_a_plain_number_is_not_used():
    def step(x):
        for sigma in (1.0, 0.95):
            x = x * sigma + jnp.sin(x) * sigma
        return x

    assert "SIGMA" not in recover(step, X)


def test_numbers_that_the_user_wrote_stay():
    def step(x):
        y = jax.nn.standardize(x, epsilon=1e-7)
        return y + jax.nn.standardize(x, axis=0, epsilon=1e-7)

    text = recover(step, X)
    assert "EPSILON" not in text and text.count("epsilon=1e-07") == 2


def scaled(x, strength):
    y = jnp.sin(x) * strength
    return y + jnp.cos(x) * strength


def test_numbers_that_the_user_passed_to_his_function_stay():
    text = recover(lambda x: scaled(x, 0.3) + scaled(-x, 0.3), X)
    assert "STRENGTH" not in text and text.count("0.3)") == 2


@pytest.mark.parametrize("options", [{"reroll": "for"}, {"keep_types": True}])
def test_named_numbers_go_with_other_options(options):
    def step(x):
        for _ in range(4):
            x = jnp.tanh(x) * RATE + jnp.sin(x) * RATE
        return x

    assert "\nRATE = 0.0003\n" in recover(step, X, **options)


def test_local_array_does_not_hide_a_constant():
    class Config:
        rate = 3e-3

    def step(x):
        config = Config()
        x = x * config.rate + jnp.sin(x) * config.rate
        RATE = x + 1
        return RATE * RATE * config.rate

    text = recover(step, X)
    assert "\nRATE = 0.003\n" in text
    assert "    RATE_2 = x + 1\n    return RATE_2 * RATE_2 * RATE" in text


def test_anonymous_file_has_numbers():
    text = recover(lambda x: normalize(x) + jnp.log(x + EPS), X, anonymous=True)
    assert "EPS" not in text
    assert text.count("1e-06") == 2


def test_integers_of_the_module_keep_their_names():
    def f(x):
        x = jnp.tile(x.reshape(HEADS, n), (2 * HEADS, 1))[:HEADS]
        for _ in range(STEPS):
            x = jnp.sin(x)
        x = jax.lax.fori_loop(0, STEPS, lambda i, y: jnp.where(i < HEADS, y, 2 * y), x)
        return jnp.stack([jnp.roll(x, i) for i in range(HEADS)])

    text = recover(f, X)
    assert "\nHEADS = 4\n" in text and "\nSTEPS = 5\n" in text
    assert "x.reshape(HEADS, 3), (2 * HEADS, 1))[:HEADS]" in text, text
    assert "for _ in range(STEPS):" in text
    assert "fori_loop(0, STEPS, lambda i, y: jnp.where(i < HEADS, y, 2 * y), x)" in text
    assert "for i in range(HEADS)]" in text
    anonymous = str(untrace.source(f, anonymous=True)(X))
    assert "HEADS" not in anonymous and "STEPS" not in anonymous


def test_integers_that_come_from_elsewhere_stay():
    def f(x, axis=4):
        y = jnp.zeros((axis, HEADS)) + axis
        for _ in range(len("abcd")):
            y = jnp.sin(y)
        return y + x[0, 0]

    text = recover(f, X)
    assert "axis = 4\n    y = jnp.zeros((axis, HEADS)) + axis" in text, text
    assert "for _ in range(4):" in text
