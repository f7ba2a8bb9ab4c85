"""Level "api": instances of registered classes come back with all that they hold."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

X = np.linspace(0.1, 1.0, 4, dtype=np.float32)


class State(NamedTuple):
    """Of a loop, with a counter that is a Python number at first."""

    i: Any
    x: Any
    limits: Any = (0, 3)


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["x", "rate"], meta_fields=[]
)
@dataclasses.dataclass
class Leaky:
    x: Any
    rate: Any = 0.5


def count(x):
    out = jax.lax.while_loop(
        lambda s: s.i < s.limits[1],
        lambda s: s._replace(i=s.i + 1, x=s.x * 2),
        State(0, x),
    )
    return out.x


def step(leaky):
    return Leaky(leaky.x * leaky.rate, 0.25)


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (count, "State(i=0, x=x, limits=(0, 3)),"),
        (lambda x: State(np.float32(2), x), "State(i=np.float32(2.0), x=x, limits="),
        (lambda x: jax.jit(step)(Leaky(x)), "(Leaky(x=x, rate=0.5))"),
        (lambda x: (step(step(Leaky(x))), 3), "rate=0.25)"),
        (lambda x: [Leaky(x, 1.0), Leaky(x, True), Leaky(x, 1)], "rate=True"),
    ],
)
def test_numbers_in_classes_are_written(function, line):
    src = untrace.source(function)(X)
    assert "from its equations" not in str(src), src.report.notes
    assert src.report.is_verified, str(src.report)
    assert line in str(src)
    expected, actual = jax.jit(function)(X), jax.jit(src.load())(X)
    pairs = zip(jax.tree.leaves(expected), jax.tree.leaves(actual), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)


class Update:
    """What JAX takes for a leaf, and holds arrays."""

    def __init__(self, value, state):
        self.value = value
        self.state = state


def momentum(grads, state):
    def update(g, s):
        new = 0.9 * s + g
        return Update(jnp.sqrt(new) if g.ndim else -new, new)

    out = jax.tree.map(update, grads, state)
    values = jax.tree.map(lambda u: u.value, out)
    return values, jax.tree.map(lambda u: u.state, out)


def test_objects_that_a_mapped_function_returns_are_taken_apart():
    trees = [{"a": X, "b": np.float32(2)}] * 2
    src = untrace.source(momentum)(*trees)
    assert "from its equations" not in str(src), src.report.notes
    assert src.report.is_verified, str(src.report)
    assert 'new = 0.9 * state["a"] + grads["a"]' in str(src)


@jax.jit
def halved(x, scale):
    return x / (2 * scale)


def shaped(x):
    shape = jax.eval_shape(halved, x, 1.5)
    zeros = jnp.zeros(shape.shape)
    return jax.lax.cond(x[0] > 0, lambda x: halved(x, 1.5), lambda x: zeros, x)


class Scaler:
    def __init__(self):
        self.by = 0.5

    @functools.partial(jax.jit, static_argnums=(0,))
    def step(self, x, shift):
        return jnp.sin(x) * self.by + shift


def test_a_jitted_method_that_ran_only_in_eval_shape_is_mapped():
    """Its object is static: it was taken for an argument that is no part of the program."""
    scaler = Scaler()

    def program(x):
        step = jax.vmap(scaler.step, in_axes=(0, None))
        jax.eval_shape(step, x, 2.0)
        return step(x, 2.0)

    src = untrace.source(program)(np.ones((3, 4), np.float32))
    assert src.report.strength == "identical" and not src.report.notes
    assert "jax.vmap(step, in_axes=(0, None))(x, 2.0)" in src.text, src.text


def test_a_jitted_function_that_ran_only_in_eval_shape_comes_back():
    src = untrace.source(shaped)(X)
    assert "from its equations" not in str(src), src.report.notes
    assert src.report.is_verified, str(src.report)
    assert "def halved(x, scale):" in str(src)


@jax.tree_util.register_pytree_node_class
class Unready:
    """Its parts cannot be taken before it has been made; a method returns it earlier."""

    def __init__(self, scale):
        made = self.itself()
        made.scale = scale

    def itself(self):
        return self

    def tree_flatten(self):
        return (self.scale,), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


def test_method_may_return_an_instance_that_is_still_being_made():
    source = untrace.source(lambda x: Unready(jnp.exp(x)).scale * x)(X)
    assert source.report.is_verified and not source.report.notes
    assert "return jnp.exp(x) * x" in str(source)


def largest(x):
    return jnp.max(jnp.abs(x))


class Bounded(eqx.Module):
    """Calls one of its methods before its field with a default has a value."""

    limit: jax.Array
    norm: Callable[[Any], Any] = largest

    def __init__(self, limit, norm=largest):
        self.limit = self.checked(limit)
        self.norm = norm

    def checked(self, limit):
        return jnp.exp(limit)

    def __call__(self, x):
        return jnp.minimum(self.norm(x), self.limit)


def test_frozen_instance_that_is_still_being_made_has_no_bound_default():
    source = untrace.source(lambda x: Bounded(x[0])(x))(X)
    assert not source.report.notes
    assert "return jnp.minimum(largest(x), " in str(source)


class Doubled(NamedTuple):
    """What a mapped function returns."""

    value: Any


def test_class_of_a_result_is_not_imported_where_only_equations_are_written():
    mapped = jax.vmap(lambda x: Doubled(x * 2))
    source = untrace.source(mapped, expand="vmap")(X)
    assert source.report.is_verified
    assert "class Doubled(NamedTuple):" in str(source)
    kept = untrace.source(mapped, expand="vmap", keep_types=True)(X)
    assert "class Doubled" not in str(kept)


class Parts(eqx.Module):
    """An object with optional fields."""

    a: Any = None
    b: Any = None
    c: Any = None
    d: Any = None


def test_objects_with_other_fields_are_of_one_class_whatever_comes_first():
    def f(x):
        return Parts(a=x, d=x * 2), Parts(b=x, c=x + 1), Parts(x, x * 2, x + 1, x + 3)

    source = untrace.source(f)(X)
    assert source.report.is_verified
    assert str(source).count("class Parts") == 1
