"""Numbers in modules of equinox are arrays inside `jax.jit`, and settings elsewhere."""

import importlib
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.lifting.recorded import plan
from untrace.lifting.recorded.naming import traced_numbers

X = np.linspace(0.1, 1.0, 4, dtype=np.float32)

TEXT = """
import equinox as eqx
import jax
import jax.numpy as jnp

class Constant(eqx.Module):
    value: float

    def __call__(self, x):
        return self.value

class Decay(eqx.Module):
    scale: float

    def __call__(self, x):
        return jnp.exp(-x / self.scale)

class Product(eqx.Module):
    first: eqx.Module
    second: eqx.Module

    def __call__(self, x):
        return self.first(x) * self.second(x)

class Process(eqx.Module):
    kernel: eqx.Module
    x: jax.Array

    @jax.jit
    def at(self, z):
        return self.kernel(self.x) + self.kernel(z)

    @eqx.filter_jit
    def filtered(self, z):
        return self.kernel(self.x) - self.kernel(z)
"""


@pytest.fixture
def layers(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "layers_of_modules.py").write_text(TEXT)
    monkeypatch.syspath_prepend(str(folder))
    yield importlib.import_module("layers_of_modules")
    del sys.modules["layers_of_modules"]


def recovered(f):
    src = untrace.source(f)(X, X)
    assert src.report.is_verified, str(src.report)
    assert not any("equations" in note for note in src.report.notes)
    return str(src)


def test_numbers_of_modules_are_passed_to_a_jitted_method(layers):
    def predict(x, z):
        process = layers.Process(layers.Decay(2.0), x)
        return process.at(z) * process.kernel(z)

    text = recovered(predict)
    assert "at(Process(kernel=Decay(2.0), x=x), z)" in text
    assert "self_.kernel.scale" in text


def test_boxed_numbers_are_what_boxed_arrays_are(layers):
    def predict(x, z):
        kernel = layers.Product(layers.Constant(1.5), layers.Decay(2.0))
        return layers.Process(kernel, x).at(z)

    text = recovered(predict)
    assert "Product(first=1.5, second=Decay(2.0))" in text


def test_numbers_stay_settings_where_equinox_splits_them(layers):
    def predict(x, z):
        return layers.Process(layers.Decay(2.0), x).filtered(z)

    assert "Decay" not in recovered(predict)


def test_a_call_whose_argument_is_written_wrong_is_the_only_loss(layers, monkeypatch):
    monkeypatch.setattr(plan, "classes_of_traced_numbers", lambda recording: set())

    def predict(x, z):
        a = jnp.sin(x) + jnp.cos(z)
        b = layers.Process(layers.Decay(2.0), x).at(a)
        return jax.nn.softmax(b * a)

    src = untrace.source(predict)(X, X)
    assert src.report.is_verified
    assert "jax.nn.softmax(b * a)" in str(src)
    (note,) = [n for n in src.report.notes if "from its equations" in n]
    assert note.startswith("`at` (test_traced_numbers.py:")


@jax.tree_util.register_pytree_node_class
class UsedUp:
    """A state that cannot be taken apart once another one was made of it."""

    def __init__(self, value, is_old=False):
        self.value, self.is_old = value, is_old

    def tree_flatten(self):
        if self.is_old:
            raise ValueError("this state is old")
        return (self.value,), None

    @classmethod
    def tree_unflatten(cls, _, leaves):
        return cls(*leaves)


def test_arguments_that_cannot_be_taken_apart_any_more_are_no_fault():
    def update(state):
        made = UsedUp(jnp.sin(state.value) * 2)
        state.is_old = True
        return made

    def f(x):
        state = UsedUp(x)
        made = jax.jit(update)(state)
        state.is_old = True
        return jnp.cos(made.value)

    src = untrace.source(f)(X)
    assert src.report.is_verified
    assert not any("equations" in note for note in src.report.notes)
    assert list(traced_numbers._held(UsedUp(X, is_old=True), (float,))) == []


class Network(eqx.Module):
    matrix: list[list[float]]

    def step(self, x):
        return jnp.asarray(self.matrix) @ x


def test_a_branch_may_be_given_numbers_in_lists_of_a_module():
    def program(x):
        given = Network([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0]]), x
        return jax.lax.cond(
            x[0] > 0, lambda a: a[0].step(a[1]), lambda a: a[1][:2], given
        )

    src = untrace.source(program)(jnp.ones(3))
    assert src.report.strength == "identical", str(src.report)
    assert "[[1.0, 2.0, 0.0], [0.0, 1.0, -1.0]]" in str(src)
