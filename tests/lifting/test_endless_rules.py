"""Derivative rules that call their function at ever new fixed arguments, without end."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.lifting.installed import library

POWERS = """
@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def powers(degrees, x):
    return [x**d for d in degrees]


@powers.defjvp
def powers_jvp(degrees, primals, tangents):
    (x,), (t,) = primals, tangents
    lower = tuple(max(0, d - 1) for d in degrees)
    out = powers(degrees + lower, x)
    n = len(degrees)
    return out[:n], [d * y * t for d, y in zip(degrees, out[n:])]


@functools.partial(jax.jit, static_argnums=(0,), inline=True)
def jitted_powers(degrees, x):
    return powers(degrees, x)
"""
X = np.linspace(0.5, 1.5, 3, dtype=np.float32)


@pytest.fixture
def powers(monkeypatch):
    module = library(POWERS)
    module.powers.__module__ = "layers"
    monkeypatch.setitem(sys.modules, "layers", module)
    return module


def total(function, x):
    return sum(y.sum() for y in function((1, 2), x))


def test_a_function_of_a_library_is_imported(powers):
    src = untrace.source(lambda x: total(powers.powers, x))(X)
    assert src.report.strength == "identical"
    assert "from layers import powers" in str(src)
    assert "powers((1, 2), x)" in str(src)
    assert "`powers` is imported from layers: its derivative rules call it" in str(src)
    third = jax.grad(jax.grad(jax.grad(src.load())))
    assert third(jnp.float32(2)) == 0.0  # deeper than any text would hold


def test_what_jax_leaves_out_of_a_differentiated_function(powers):
    step = jax.value_and_grad(lambda x: powers.jitted_powers((1, 2), x)[1].sum())
    src = untrace.source(step)(X)
    assert src.report.strength == "identical"
    assert "@functools.partial(jax.jit, inline=" in str(src)
    assert "written from its equations" not in str(src)


def test_a_function_of_the_user_is_written_as_deep_as_it_is_compared():
    space = {"jax": jax, "functools": __import__("functools")}
    exec(POWERS, space)
    src = untrace.source(lambda x: total(space["powers"], x))(X)
    assert src.report.strength == "identical"
    assert "Not recovered: the derivative rules" in str(src)
