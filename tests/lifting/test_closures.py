"""Inner functions that do what one of the module does are that one, with what they close over."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.lifting.functions import function
from tests.lifting.test_containers import recover
from untrace.lifting.recorded.unify.closures import bind_closures

X = np.linspace(0.1, 1.0, 2, dtype=np.float32)


class Pendulum(NamedTuple):
    length: jax.Array
    drag: jax.Array

    def motion(self, x):
        angle, speed = x
        return jnp.stack([speed, -jnp.sin(angle) / self.length - self.drag * speed])


PENDULUM = Pendulum(jnp.array(1.5), jnp.array(0.2))


def test_a_method_that_is_called_and_passed_is_one_function():
    def linearised(pendulum, x):
        matrix = jax.jacfwd(pendulum.motion)(x)
        return matrix @ pendulum.motion(x)

    text = recover(linearised, PENDULUM, X)
    assert text.count("angle, speed = x") == 1, text
    assert "motion = functools.partial(pendulum_motion, pendulum)\n" in text, text
    assert "def pendulum_motion(pendulum, x):\n" in text  # not `params`


def test_a_partial_of_a_function_that_is_called_too():
    def motion(pendulum, x):
        angle, speed = x
        return jnp.stack([speed, -jnp.sin(angle) / pendulum.length])

    def linearised(given, x):
        matrix = jax.jacfwd(functools.partial(motion, given))(x)
        return matrix @ motion(given, x)

    text = recover(linearised, PENDULUM, X)
    assert text.count("angle, speed = x") == 1, text


OUTER = function("scaled", "p, x", "y = p * x", "return y + p")


def bound(lines, outer=OUTER, parameters="a, v"):
    """Return the statements of a function after its inner functions were looked at."""
    main = function("main", parameters, *lines)
    bind_closures([outer], main, lambda: "functools.partial")
    return main.lines


INNER = ["def inner(z):", "    w = a * z", "    return w + a"]
USE = "return jax.grad(inner)(v)"
BOUND = "inner = functools.partial(scaled, a)"


def test_names_of_variables_do_not_count():
    assert bound([*INNER, "", USE]) == [BOUND, USE]
    nested = [
        "def around(k):",
        *[f"    {line}" for line in INNER],
        "    return inner(k)",
    ]
    assert bound([*nested, "return around(v)"])[1] == f"    {BOUND}"


@pytest.mark.parametrize(
    "lines",
    [
        ["def inner(z):", "    w = z * a", "    return w + a"],
        ["def inner(z):", "    w = a * z", "    return w + z"],
        ["def inner(z):", "    w = a * z", "    return w + v"],
        ["def inner(z):", "    w = a * z", "    return a + a"],
        ["def inner(z, u):", "    w = a * z", "    return w + a"],
        ["def inner(z=1):", "    w = a * z", "    return w + a"],
        ["def inner(*z):", "    w = a * z", "    return w + a"],
        ["@jax.jit", "def inner(z):", "    w = a * z", "    return w + a"],
        ["def inner(z):", "    w = a * z", "    return w + a", "a = a + 1"],
        ["for a in v:", *[f"    {line}" for line in INNER]],
    ],
)
def test_what_does_something_else_or_may_change_stays(lines):
    before = [*lines, USE]
    assert bound([*before]) == before


def test_a_function_whose_name_is_a_variable_s_is_not_read():
    before = [*INNER, "scaled = v * 2", "return inner(v) + scaled"]
    assert bound([*before]) == before


def test_a_variable_that_has_its_value_later_is_not_bound_before():
    before = [*INNER, "a = v * 2", USE]
    assert bound([*before], parameters="v") == before
    after = ["a = v * 2", *INNER, USE]
    assert bound(after, parameters="v") == ["a = v * 2", BOUND, USE]


@pytest.mark.parametrize(
    "outer",
    [
        function("scaled", "p, x", *OUTER.lines, decorators=["jax.jit"]),
        function("scaled", "p, x", *OUTER.lines, after=["scaled.defjvp(rule)"]),
        function("scaled", "p, x, q=1", *OUTER.lines),
        function("scaled", "x, p", *OUTER.lines),
        function("scaled", "p, q, x", *OUTER.lines),
        function("scaled", "p, x", "return p * x + p"),
    ],
)
def test_functions_that_cannot_take_its_place(outer):
    assert bound([*INNER, USE], outer) == [*INNER, USE]


def test_inner_functions_take_slices_of_what_is_around():
    def predict(params, x):
        for w, b in params[:-1]:
            x = jnp.tanh(w @ x + b)
        w, b = params[-1]
        return w @ x + b

    def loss(params, x, v):
        n = len(params) // 2

        def encoder(x):
            return predict(params[:n], x)

        z, pull = jax.vjp(encoder, x)
        (back,) = pull(v)
        again, forth = jax.jvp(lambda z: predict(params[n:], z), [z], [v])
        return jnp.sum((again - x) ** 2) + back @ forth

    x = jnp.arange(3.0)
    params = [(jnp.eye(3) * (i + 1), x) for i in range(8)]
    text = recover(jax.grad(loss), params, x, x)
    assert "return predict(params[:4], x)" in text
    assert "predict(params[4:], z)" in text
