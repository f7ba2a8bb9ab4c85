"""Loops of the program over functions, `for f in (jnp.sin, jnp.cos)`, come back."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

X = np.linspace(0.1, 1.0, 4, dtype=np.float32)
ROWS = np.linspace(0.1, 1.0, 20, dtype=np.float32).reshape(5, 4)


def recover(function, *args):
    src = untrace.source(function)(*args)
    assert src.report.strength == "identical", str(src.report)
    return str(src)


def scaled(x, k):
    return x * k + 1


def shifted(x, k):
    return x * 3 + jnp.cos(k)


def of_jax(x):
    for f in (jnp.sin, jnp.cos, jnp.tanh):
        x = f(x) + 1
    return x


def of_all_kinds(x):  # some stop at another instruction, since they are Python's
    for act in (jax.nn.relu, jax.nn.gelu, jax.nn.silu):
        x = act(x) + 1
    return x


def with_rows(x, h):
    total = 0.0
    for f, amplitude in zip((jnp.sin, jnp.cos, jnp.tanh, jnp.exp, jnp.sinh), h):
        total = total + amplitude * f(x)
    return total


def with_numbers(x):
    for f, k in [(scaled, 2.0), (shifted, 3.0), (scaled, 4.0)]:
        x = f(x, k)
    return x


def listed(x):
    return [g(x) for g in (jnp.sin, jnp.cos, jnp.tan)]


def summed(x):
    return sum(f(x) for f in (jnp.sum, jnp.max, jnp.min))


def by_name(x, y):
    return {
        name: f(x, y) for name, f in {"a": scaled, "b": shifted, "c": scaled}.items()
    }


def transformed(x):
    out = []
    for f in (jnp.sin, jnp.cos, jnp.tanh):
        out.append(jax.grad(f)(x[0]))
        out.append(jax.vmap(f)(x))
    return out


class Dense:
    def __call__(self, p, x):
        return x @ p["w"] + p["b"]


class Scale:
    def __call__(self, p, x):
        return x * p["w"] + p["b"]


class Chain:
    def __init__(self, *layers):
        self.layers = layers

    def __call__(self, params, x):
        for layer, p in zip(self.layers, params):
            x = layer(p, x)
        return x


def of_objects(params, x):
    return Chain(Dense(), Scale(), Dense(), Scale())(params, x)


class Activated:
    def __init__(self, act):
        self.act = act

    def __call__(self, p, x):
        return self.act(x @ p["w"] + p["b"])


def of_attributes(params, x):
    acts = (jax.nn.relu, jnp.tanh, jax.nn.silu)
    return Chain(*map(Activated, acts))(params, x)


WEIGHTS = [
    {"w": np.ones((4, 4) if i % 2 == 0 else 4, np.float32), "b": X} for i in range(4)
]


@pytest.mark.parametrize(
    ("function", "args", "line"),
    [
        (of_jax, (X,), "for f in (jnp.sin, jnp.cos, jnp.tanh):"),
        (
            of_attributes,
            (3 * WEIGHTS[:1], X),
            "for p, act in zip(params, (jax.nn.relu, jnp.tanh, jax.nn.silu)):",
        ),
        (of_all_kinds, (X,), "for act in (jax.nn.relu, jax.nn.gelu, jax.nn.silu):"),
        (
            with_rows,
            (X, ROWS),
            "for f, amplitude in zip((jnp.sin, jnp.cos, jnp.tanh, jnp.exp, jnp.sinh), h):",
        ),
        (
            with_numbers,
            (X,),
            "for f, k in zip((scaled, shifted, scaled), (2.0, 3.0, 4.0)):",
        ),
        (listed, (X,), "return [g(x) for g in (jnp.sin, jnp.cos, jnp.tan)]"),
        (summed, (X,), "return sum(f(x) for f in (jnp.sum, jnp.max, jnp.min))"),
        (by_name, (X, X + 1), 'zip(("a", "b", "c"), (scaled, shifted, scaled))'),
        (transformed, (X,), "out += [jax.grad(f)(x[0]), jax.vmap(f)(x)]"),
        (
            of_objects,
            (WEIGHTS, X),
            "for layer, p in zip((dense, scale, dense, scale), params):",
        ),
    ],
)
def test_loops_over_functions_come_back(function, args, line):
    text = recover(function, *args)
    assert line in text, text


def test_functions_that_are_called_by_those_of_a_loop_make_no_loop():
    def metrics(x):
        fs = [lambda x: jnp.sum(x), lambda x: jnp.max(x), lambda x: jnp.min(x)]
        return [f(x * 2) for f in fs]

    text = recover(metrics, X)
    assert "for " not in text.partition("def example_args")[0], text


def test_calls_that_stand_in_no_loop_are_none():
    def run(x):
        x = jnp.sin(x) + 1
        x = jnp.cos(x) + 1
        x = jnp.tanh(x) + 1
        return x

    assert "for " not in recover(run, X).partition("def example_args")[0]
