"""`reroll="scan"` makes another program of one that is proved; only that is told by values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.custom_batching import custom_vmap

import untrace

X = np.linspace(0.1, 1.0, 3, dtype=np.float32)
SHAPE = jax.ShapeDtypeStruct((3,), np.float32)


class Limiter:
    """Equal by name, as in a registry; its limit is set later."""

    def __init__(self, name):
        self.name, self.limit = name, 100.0

    def __eq__(self, other):
        return isinstance(other, Limiter) and self.name == other.name

    def __hash__(self):
        return hash(self.name)

    def apply(self, x):
        return np.minimum(np.asarray(x), np.float32(self.limit))


LIMITER = Limiter("a")
LIMITER.limit = 5.0


def limited(x):
    return jax.pure_callback(LIMITER.apply, SHAPE, x)


@pytest.mark.parametrize("options", [{}, {"symbolic": True}])
def test_what_is_not_proved_is_not_rerolled(options):
    src = untrace.source(limited, reroll="scan", **options)(X)
    assert not src.report.is_verified, str(src)
    assert "by design" not in str(src)


@custom_vmap
def times(x, y):
    return x * y


@times.def_vmap
def batched_times(n, given, x, y):
    factor = 10 if all(given) else 20 if given[0] else 30
    return x * y * factor, True


def test_batching_rules_are_those_of_the_program():
    src = untrace.source(lambda x, y: times(x, y), reroll="scan")(X, X)
    assert src.report.is_verified, str(src)
    one = jax.vmap(src.load(), (0, None))(np.stack([X, X]), X)
    assert np.array_equal(one, jax.vmap(times, (0, None))(np.stack([X, X]), X))


@pytest.mark.parametrize("anonymous", [False, True])
def test_layers_become_a_scan(anonymous):
    def f(layers, x):
        for layer in layers:
            x = x + jnp.tanh(x @ layer["w"]) * 0.5
        return x

    layers = [{"w": np.eye(3, dtype=np.float32) * i} for i in range(5)]
    src = untrace.source(f, reroll="scan", anonymous=anonymous)(layers, X)
    assert src.report.strength == "rerolled" and "jax.lax.scan(" in str(src)
    assert np.allclose(src.load()(layers, X), f(layers, X))


def test_turns_of_several_statements_are_a_function_of_the_scan():
    def f(layers, x, scale):
        for layer in layers:
            h = jnp.tanh(x @ layer["w"]) * scale
            x = x + h / jnp.sum(h)
        return x

    layers = [{"w": np.eye(3, dtype=np.float32) * i} for i in range(1, 6)]
    src = untrace.source(f, reroll="scan")(layers, X, X[0])
    assert src.report.strength == "rerolled"
    for line in (
        "def step(x, item):",
        'h = jnp.tanh(x @ item["w"]) * scale',
        "x, _ = jax.lax.scan(step, x, stacked)",
    ):
        assert line in str(src), str(src)


def test_turns_that_leave_more_than_one_value_are_no_scan():
    def f(x, y):
        for _ in range(4):
            x, y = jnp.sin(x) * y, jnp.cos(y) + x
        return x, y

    src = untrace.source(f, reroll="scan")(X, X)
    assert src.report.strength == "identical" and "scan(" not in str(src)


def test_a_program_without_repetition_is_proved_as_it_is():
    src = untrace.source(lambda x: jnp.sin(x) * 2, reroll="scan")(X)
    assert src.report.strength == "identical"
    assert any('reroll="scan" changes nothing' in note for note in src.report.notes)


@pytest.mark.parametrize("part", [0, 1])
def test_what_is_taken_of_each_layer_stays_outside_of_the_stack(part):
    @jax.jit
    def layer(x, w):
        return jnp.tanh(x @ w) * 0.5

    def f(layers, x):
        for one in layers:
            x = layer(x, one[part])
        return x

    layers = [(np.eye(3, dtype=np.float32) * i, np.float32(i) * X) for i in range(5)]
    layers = [one[::-1] if part else one for one in layers]
    src = untrace.source(f, reroll="scan")(layers, X)
    assert src.report.strength == "rerolled" and f"item[{part}]" in str(src)
