"""`jax.pmap`: mapped functions come back as calls, with their options, over devices."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

D = 4
X = np.linspace(0.1, 1.0, D * 6, dtype=np.float32).reshape(D, 2, 3)
W = np.ones((3, 3), np.float32)


def recover(function, *args):
    src = untrace.source(function)(*args)
    assert src.report.strength == "identical", str(src.report)
    assert "written from its equations" not in str(src), src.report.notes
    return str(src)


@partial(jax.pmap, axis_name="batch", donate_argnums=(0,))
def train_step(params, x):
    loss, grads = jax.value_and_grad(lambda p: jnp.mean((x @ p["w"]) ** 2))(params)
    grads = jax.lax.pmean(grads, "batch")
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


PARAMS = {"w": np.ones((D, 3, 2), np.float32)}
DECORATED = """\
@functools.partial(jax.pmap, axis_name="batch", donate_argnums=(0,))
def train_step(params, x):
"""


def test_a_program_that_is_mapped_keeps_its_name():
    text = recover(train_step, PARAMS, X)
    assert DECORATED in text and text.startswith('"""`train_step` from')
    assert f"Needs {D} devices." in text


def test_a_function_that_is_called_twice():
    def twice(params, x):
        params, first = train_step(params, x)
        params, second = train_step(params, x)
        return params, first + second

    text = recover(twice, PARAMS, X)
    assert DECORATED in text
    assert "params, second = train_step(params, x)" in text


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (lambda x, w: jax.pmap(jnp.dot, in_axes=(0, None))(x, w), "in_axes=(0, None)"),
        (lambda x, w: jax.pmap(jnp.sin, in_axes=1, out_axes=1)(x), "out_axes=1)(x)"),
        (
            lambda x, w: jax.lax.map(jax.pmap(jax.vmap(jnp.sum)), x[None]),
            "jax.lax.map(jax.pmap(jax.vmap(jnp.sum)), x[None])",
        ),
        (
            lambda x, w: jax.pmap(jnp.cos, devices=jax.devices()[:2])(x[:2]),
            "devices=(jax.devices()[0], jax.devices()[1])",
        ),
        (
            lambda x, w: jax.grad(
                lambda w: jax.pmap(lambda a: jnp.tanh(a @ w))(x).sum()
            )(w),
            "jax.pmap(lambda a: jnp.tanh(a @ w))(x)",
        ),
    ],
)
def test_options(function, line):
    assert line in recover(function, X, W)


@partial(jax.pmap, in_axes=(0, None), static_broadcasted_argnums=(2,))
def powers(x, w, n):
    return (x @ w) ** n


def test_static_arguments_are_written():
    text = recover(lambda x, w: powers(x, w, 3) + powers(x, w, 2), X, W)
    assert "@functools.partial(jax.pmap, in_axes=(0, None))\ndef powers(x, w):" in text
    assert "(x @ w) ** 3" in text


def test_collectives_over_the_axis():
    @partial(jax.pmap, axis_name="i")
    def ranked(x):
        return x / jax.lax.psum(x, "i") * jax.lax.axis_index("i")

    assert '@functools.partial(jax.pmap, axis_name="i")' in recover(ranked, X)
