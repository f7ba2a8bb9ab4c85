"""Level "api": constants of the source are no parameters, even if they are alike."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

X = np.linspace(0.1, 1.0, 4, dtype=np.float32)
SCALE = 0.3


def variable(x, dt=0.3):
    scale = 0.3
    return dt * x * scale


def literal(x, dt=0.3):
    return dt * x * 0.3


def global_variable(x, dt=0.3):
    return dt * x * SCALE


def unpacked(x, dt=0.3):
    a, b = 0.3, dt
    c, d = dt, 0.3
    return ((x * a + b) * c + d) * dt


def in_turns(x, dt=0.3):
    for scale in (0.3, 0.4):
        x = jnp.sin(x * scale)
    return x * dt


def closed_over(x, dt=0.3):
    scale = 0.3

    def body(carry, _):
        return jnp.cos(carry * scale) * dt, None

    return jax.lax.scan(body, x, None, length=3)[0]


def in_formula(x, dt=0.3):
    scale = 0.3
    return x * (scale * dt)


def chosen(x, dt=0.3):
    scale = dt if x.ndim == 1 else 0.3
    return x * scale


def beside(x, dt=0.3):
    bound = 0.3
    return jnp.where(x > 0.3, bound, dt) + jnp.where(x > dt, dt, 0.3)


def scaled(x, rate, shift=0.1):
    return jnp.sin(x) * rate + shift


def passed(x, dt=0.3):
    scale = 0.3
    return scaled(x, 0.3) + scaled(x, scale) + scaled(x, dt)


def passed_beside(x, dt=0.3):
    return scaled(x, 0.3, dt) + scaled(x, shift=0.3, rate=dt)


@pytest.mark.parametrize(
    ("function", "lines"),
    [
        (variable, ["scale = 0.3\n", "return dt * x * scale"]),
        (literal, ["return dt * x * 0.3"]),
        (global_variable, ["return dt * x * SCALE"]),
        (unpacked, ["return ((x * a + dt) * dt + d) * dt"]),
        (in_turns, ["for scale in (0.3, 0.4):\n        x = jnp.sin(x * scale)\n"]),
        (closed_over, ["scale = 0.3\n", "return jnp.cos(carry * scale) * dt, None"]),
        (in_formula, ["return x * (scale * dt)"]),
        (chosen, ["return x * dt"]),
        (beside, ["jnp.where(x > 0.3, 0.3, dt) + jnp.where(x > dt, dt, 0.3)"]),
        (passed, ["scaled(x, 0.3) + scaled(x, scale) + scaled(x, dt)"]),
        (passed_beside, ["scaled(x, 0.3, dt) + scaled(x, dt, 0.3)"]),
    ],
)
def test_constants_that_are_like_a_default(function, lines):
    src = untrace.source(lambda x: function(x))(X)
    assert "from its equations" not in str(src), src.report.notes
    assert src.report.strength == "identical", str(src.report)
    for line in lines:
        assert line in str(src)


def negative_local(x):
    shift = -0.7
    return x + shift


def negative_letter(x):
    t = -0.3
    return jnp.sin(x - t) * t


def negative_plain(x):
    shift = -0.5
    return (x + shift) * shift


def negative_computed(x, n=3):
    shift = -(n - 1) / 2
    return x + shift


def negative_closed_over(x, low=-0.25):
    return jax.vmap(lambda row: row - low)(x)


@pytest.mark.parametrize(
    ("function", "written"),
    [
        (negative_local, "x + shift"),
        (negative_letter, "jnp.sin(x - t) * t"),
        (negative_plain, "(x + shift) * shift"),
        (negative_computed, "shift = -(n - 1) / 2\n    return x + shift"),
        (
            negative_closed_over,
            "low = -0.25\n    return jax.vmap(lambda row: row - low)(x)",
        ),
        (lambda x: x + -0.7, "x + -0.7"),  # as it was written
    ],
)
def test_a_negative_number_is_not_added_without_its_name(function, written):
    source = untrace.source(function)(X)
    assert written in source.text, source.text
    assert source.report.strength == "identical"


def scaled_down(x):
    shift = -0.7
    return x * shift


def twice_scaled(x):
    half = -0.5
    return jnp.sin(x * half) * half


@pytest.mark.parametrize("function", [scaled_down, twice_scaled])
def test_other_negative_numbers_have_names_as_all_have(function):
    text = untrace.source(function)(X).text
    assert "SHIFT" not in text and "HALF" not in text


def pendulum(state):
    dt = 0.05
    m, g, length = 1.0, 9.8, -2.0
    angle, speed = state
    return angle + dt * speed, speed - dt * m * g * length * jnp.sin(angle)


def test_numbers_that_variables_hold_are_theirs():
    """So the text has the formula of the program: `m * g * length` is no `-19.6`."""
    text = str(untrace.source(pendulum)((X, X)))
    assert "    dt = 0.05\n    m = 1.0\n    g = 9.8\n    length = -2.0\n" in text, text
    assert "angle + dt * speed" in text, text
    assert "speed - dt * m * g * length * jnp.sin(angle)" in text, text
    text = str(untrace.source(pendulum, anonymous=True)((X, X)))
    assert "length" not in text and "0.05" in text, text


def closes_over(x):
    dt = 0.05
    m = 1.5

    def step(x, _):
        def force(y):
            return -m * jnp.sin(y)

        return x + dt * jax.vmap(force)(x) / m, None

    return jax.lax.scan(step, x, None, length=3)[0] * dt


def called_twice(x):
    return scales(x) + scales(x + 1)


def scales(x):
    rate = 0.3
    return jax.vmap(lambda row: row * rate + jnp.sin(row) / rate)(x)


@pytest.mark.parametrize(
    ("function", "lines"),
    [
        (closes_over, ["    dt = 0.05", "    m = 1.5", "return -m * jnp.sin(y)"]),
        (closes_over, ["x + dt * jax.vmap(force)(x) / m", "[0] * dt"]),
        (
            called_twice,
            ["    rate = 0.3\n    return jax.vmap(lambda row: row * rate +"],
        ),
    ],
)
def test_inner_functions_see_the_numbers_of_variables_around(function, lines):
    source = untrace.source(function)(X)
    assert source.report.strength == "identical", str(source.report)
    for line in lines:
        assert line in source.text, source.text


def clipped(x, xs):
    LIMIT = 1e6

    def step(c, y):
        c = jnp.clip(c + y, -LIMIT, LIMIT)
        return c, jnp.where(c > 0, c, 1e6)

    return jax.lax.scan(step, x, xs)


def test_a_variable_of_a_function_is_no_constant_of_the_module():
    src = untrace.source(clipped)(np.float32(1.0), np.ones(4, np.float32))
    assert src.report.strength == "identical", str(src.report)
    assert "\n    LIMIT = 1000000.0\n" in src.text, src.text
    assert "\nLIMIT = " not in src.text, src.text
