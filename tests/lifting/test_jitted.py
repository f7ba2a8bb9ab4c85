"""Functions that a library jits for the user take the user's arguments one by one."""

import functools

import equinox
import jax
import jax.numpy as jnp

import untrace
from tests.lifting.installed import library

X = jnp.arange(3.0)

BOXED = library(
    """
def boxed_jit(function, **options):
    @functools.partial(jax.jit, static_argnums=2, **options)
    def run_boxed(kept, given, static):
        result = function(*given["args"], scale=given["scale"])
        return jnp.array(0), {"result": result, "static": None}, None

    def call(*args, scale, kept=None):
        boxes = {"args": args, "none": None, "scale": scale}
        marker, boxed, _ = run_boxed({"kept": kept}, boxes, "static")
        return boxed["result"]

    return call
"""
)


def recover(function, *args, **options):
    source = untrace.source(function, **options)(*args)
    assert source.report.is_verified
    return str(source).partition('"""\n\n')[2].partition("def example_args")[0]


def step(x, y, scale):
    total = jnp.sin(x) * scale
    return total + y, jnp.sum(total)


def test_the_containers_of_a_library_are_left_out():
    boxed = BOXED.boxed_jit(step)
    text = recover(lambda x, y: boxed(x, y, scale=y * 2.0), X, X)
    assert "jax.jit(step)(x, y, y * 2.0)" in text
    assert "boxes" not in text and "{" not in text and "jnp.array(0)" not in text


def test_a_donation_of_nothing_is_left_out():
    boxed = BOXED.boxed_jit(step, donate_argnums=0)
    text = recover(lambda x, y: boxed(x, y, scale=y), X, X)
    assert "jax.jit(step)(x, y, y)" in text and "donate" not in text


def test_what_is_donated_is_donated():
    boxed = BOXED.boxed_jit(step, donate_argnums=0)
    text = recover(lambda x, y: boxed(x, y, scale=y, kept=x), X, X)
    assert "donate_argnums" in text
    boxed = BOXED.boxed_jit(step, donate_argnums=1)
    text = recover(lambda x, y: boxed(x, y, scale=y), X, X)
    assert "donate_argnums=(0, 1, 2)" in text


def test_what_nobody_needs_is_not_returned():
    boxed = BOXED.boxed_jit(lambda x, scale: (jnp.sin(x) * scale, jnp.cos(x)))
    text = recover(lambda x: boxed(x, scale=x)[0] + 1.0, X)
    assert "jax.jit(" in text and "jnp.cos" not in text


def test_calls_of_one_function_return_what_any_of_them_needs():
    boxed = BOXED.boxed_jit(step)

    def f(x):
        first, _ = boxed(x, x, scale=x)
        _, second = boxed(first, x, scale=x)
        return second

    text = recover(f, X)
    assert text.count("jax.jit(step)(") == 2


def test_a_longer_function_of_a_library_is_decorated_or_passed():
    made = library(
        """
@jax.jit
def run_boxed(given):
    x, y = given["x"], given["y"]
    for _ in range(2):
        x = jnp.sin(x) * y
        y = jnp.cos(y) + jnp.tanh(x) * jnp.exp(x) - jnp.sqrt(jnp.abs(y) + 1.0) * 3.0
    return {"x": x, "y": y}

def run(x, y):
    return run_boxed({"x": x, "y": y})
"""
    )
    text = recover(lambda x: made.run(x, x + 1.0)["y"] * 2.0, X)
    assert "jax.jit" in text and "run_boxed(x, x + 1.0)" in text


def test_a_training_step_of_equinox_reads_as_it_was_written():
    def step(model, x):
        return jax.tree.map(lambda w: w - 0.1, model), jnp.sum(jax.vmap(model)(x))

    model = equinox.nn.Linear(3, 2, key=jax.random.key(0))
    f = equinox.filter_jit(step)
    text = recover(lambda model, x: f(model, x), model, jnp.ones((4, 3)))
    assert "jax.jit(step)(model, x)" in text


def test_the_users_own_jit_keeps_its_arguments():
    @functools.partial(jax.jit, donate_argnums=0)
    def update(state, given):
        return state, given["x"] * 2.0

    text = recover(lambda x: update({}, {"x": x, "none": None})[1], X)
    assert "donate_argnums" in text and 'given["x"] * 2.0' in text
