"""Functions and numbers of objects and closures, which differ between runs of one function."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import untrace
from tests.lifting.installed import library

X = np.linspace(0.1, 1.0, 12, dtype=np.float32).reshape(3, 4)
DENSE = {"w": np.ones((4, 4), np.float32), "b": np.zeros(4, np.float32)}


def recover(function, *args):
    src = untrace.source(function)(*args)
    assert src.report.strength == "identical", str(src.report)
    return str(src)


def smooth(x):
    return x * jax.nn.sigmoid(1.7 * x)


class Dense:
    def __init__(self, name, act=None):
        self.name = name
        self.act = act

    def __call__(self, params, x):
        p = params[self.name]
        x = x @ p["w"] + p["b"]
        if self.act is not None:
            x = self.act(x)
        return x


DENSE_FUNCTION = """
def dense(params, x, act):
    x = x @ params["w"] + params["b"]
    if act is not None:
        x = act(x)
    return x
"""


def test_layers_that_differ_in_what_they_apply_are_one_function():
    layers = [Dense("a", jax.nn.silu), Dense("b", smooth), Dense("c")]

    def loss(params, x):
        for layer in layers:
            x = layer(params, x)
        return x.sum()

    text = recover(loss, dict.fromkeys("abc", DENSE), X)
    assert DENSE_FUNCTION in text
    assert 'x = dense(params["c"], x, None)' in text
    assert "dense_2" not in text


@dataclass
class Network:
    act: Any
    final: Any = None

    def __call__(self, params, x):
        h = self.act(x @ params["w"] + params["b"])
        y = h @ params["w"]
        if self.final:
            y = self.final(y)
        return y


def test_one_function_in_two_attributes():
    actor, critic = Network(jnp.tanh, jnp.tanh), Network(smooth)

    def step(actor_params, critic_params, x):
        return critic(critic_params, x + actor(actor_params, x))

    text = recover(step, DENSE, DENSE, X)
    assert "def network(params, x, act, final=None):" in text
    assert "        y = final(y)" in text
    assert "network(actor_params, x, jnp.tanh, jnp.tanh)" in text


def test_functions_of_modules():
    class Block(eqx.Module):
        w: Any
        act: Any

        def __call__(self, x):
            return self.act(self.w @ x)

    blocks = [Block(jnp.ones((4, 4)), act) for act in (jnp.tanh, smooth)]

    def apply(blocks, x):
        for block in blocks:
            x = block(x)
        return x

    text = recover(apply, blocks, X[0])
    assert "def block(params, x, act):\n    return act(params.w @ x)" in text


def test_functions_that_are_closed_over():
    def make(act):
        def layer(params, x):
            h = x @ params["w"]
            return act(h) + params["b"]

        return layer

    first, second = make(jnp.tanh), make(jax.nn.relu)
    text = recover(lambda p, x: second(p, first(p, x)), DENSE, X)
    assert "def layer(params, x, act):" in text
    assert "layer(p, layer(p, x, jnp.tanh), jax.nn.relu)" in text


class Potential:
    def __init__(self, form, strength, shift):
        self.form, self.strength, self.shift = form, strength, shift

    def energy(self, x):
        return self.strength * self.form(jnp.roll(x, self.shift)).sum()


def quadratic(r):
    return 0.5 * r**2


def test_numbers_of_objects():
    both = [Potential(quadratic, 2.5, 1), Potential(smooth, 3.5, 2)]

    def total(x):
        return both[0].energy(x) + both[1].energy(x)

    text = recover(total, X)
    assert "strength * form(jnp.roll(x, shift)).sum()" in text
    assert text.count("def energy") == 1


class Settings(NamedTuple):
    act: Any
    scale: float
    heads: int


def attend(params, x, settings):
    h = (x @ params["w"]) * settings.scale
    h = h.reshape(len(x), settings.heads, -1)
    return settings.act(h).reshape(x.shape)


def test_settings_that_are_passed_in_an_object():
    outer, inner = Settings(jnp.tanh, 0.7, 2), Settings(smooth, 0.3, 4)
    text = recover(lambda p, x: attend(p, attend(p, x, inner), outer), DENSE, X)
    assert "def attend(params, x, scale, act, heads):" in text
    assert "attend(p, attend(p, x, 0.3, smooth, 4), 0.7, jnp.tanh, 2)" in text


def test_what_does_not_differ_is_no_parameter():
    both = [Potential(smooth, 2.5, 1), Potential(smooth, 2.5, 1)]

    def total(x):
        return both[0].energy(x) + both[1].energy(x)

    text = recover(total, X)
    assert "def energy(x):\n    return 2.5 * smooth(jnp.roll(x, 1)).sum()" in text


GRAPH = """
class Node:
    def __init__(self, name):
        self.name = name


class Simulator:
    def __init__(self, nodes):
        self.nodes = nodes

    def __call__(self, params):
        for i, node in enumerate(self.nodes):
            state = params[i]
            node.held = state
        return self.forward()

    def forward(self):
        a, b, c = (node.held for node in self.nodes)
        return spring(a, b) + jnp.sin(a) * jnp.cos(damper(c))


def spring(stiffness, length):
    for _ in range(3):
        length = jnp.sin(length) * jnp.exp(stiffness) + jnp.tanh(length * stiffness)
    return length


def damper(viscosity):
    x = jnp.sqrt(viscosity)
    for _ in range(3):
        x = jnp.cos(x) * jnp.exp(viscosity) + jnp.tanh(x * viscosity)
    return x
"""


def test_values_that_a_library_calls_alike_are_named_by_what_takes_them():
    module = library(GRAPH)
    simulate = module.Simulator([module.Node(name) for name in "abc"])
    text = recover(lambda params: simulate(params), X[0][:3])
    assert "state" not in text
    assert "stiffness, length, viscosity" in text


def make_step(update, final):
    def apply(net):
        start = jnp.zeros_like(net).at[0].set(net[0] + 1.0)
        carry, _ = jax.lax.scan(update, start, jnp.ones(5))
        return carry if final is None else final(carry)

    return apply


def test_what_a_closure_may_hold_none_for_comes_last_and_has_a_default():
    def one(c, x):
        return c * x + 1.0, c

    def two(c, x):
        return c - jnp.sin(x), c

    def run(net):
        net = jax.lax.fori_loop(0, 3, lambda _, n: make_step(one, jnp.tanh)(n), net)
        return make_step(two, None)(net)

    src = untrace.source(run)(np.ones(3, np.float32))
    text = str(src)
    assert src.report.strength == "identical", text
    assert "def apply(net, update, final=None):" in text, text
    assert "return carry if final is None else final(carry)" in text
    assert "return apply(net, two)" in text


def create_linear():
    def forward(params, x):
        return x @ params["w"] + params["b"]

    return forward


def create_norm(shape):
    shape = tuple(shape)

    def forward(params, x, eps=1e-5, *, power=2.0):
        assert x.shape[-len(shape) :] == shape
        return params["g"] * x / ((x**power).mean() + eps)

    return forward


def make_block():
    norm, linear = create_norm([4]), create_linear()

    def forward(params, x):
        return x + jnp.tanh(linear(params["linear"], norm(params["norm"], x)))

    return forward


BLOCKS = [make_block() for _ in range(3)]
LAST = create_norm([4])
LINEAR = {"w": np.eye(4, dtype=np.float32), "b": np.ones(4, np.float32)}
NORM = {"g": np.ones(4, np.float32)}


def of_factories(params, x):
    for block, p in zip(BLOCKS, params["blocks"].values()):
        x = block(p, x)
    return LAST(params["last"], x, eps=1e-3)


def test_functions_that_a_factory_made_are_one_and_are_called_after_it():
    """Their defaults are those in the source: each call of the factory makes them anew."""
    blocks = {f"block_{i}": {"norm": NORM, "linear": LINEAR} for i in range(3)}
    x = np.linspace(0.1, 1.0, 8, dtype=np.float32).reshape(2, 4)
    src = untrace.source(of_factories)({"blocks": blocks, "last": NORM}, x)
    assert src.report.strength == "identical", str(src.report)
    for part in (
        "def norm(params, x, eps=1e-05, power=2.0):",
        "def linear(params, x):",
        "def block(params, x):",
        'return x + jnp.tanh(linear(params["linear"], norm(params["norm"], x)))',
        'for p in params["blocks"].values():',
        'return norm(params["last"], x, eps=0.001)',
    ):
        assert part in src.text, src.text
    assert src.text.count("def ") == 5  # and `example_args`


def test_functions_of_a_factory_that_hold_something_else_are_passed():
    def create_scale(by):
        def forward(x):
            return jnp.sin(x) * by

        return forward

    def create_layer(by):
        scale = create_scale(by)

        def layer(x):
            return jnp.tanh(scale(x)) + scale(x * 2)

        return layer

    first, second = create_layer(2.5), create_layer(3.5)
    src = untrace.source(lambda x: second(first(x)))(np.ones(3, np.float32))
    assert src.report.strength == "identical", str(src.report)
    assert "2.5" in src.text and "3.5" in src.text and src.text.count("tanh") == 1


def test_functions_that_call_themselves_are_told_apart_in_finite_time():
    def create(n):
        def count(x, left=3):
            return x if left == 0 else jnp.sin(count(x, left - 1)) * n

        return count

    one, two = create(1.5), create(1.5)
    src = untrace.source(lambda x: one(x) + two(x))(np.ones(3, np.float32))
    assert src.report.strength == "identical", str(src.report)


class Linear:
    def __init__(self, name):
        self._name = name

    def __call__(self, params, x):
        return x @ params[self._name + "/w"] + params[f"{self._name}/b"]


class Block:
    def __init__(self, prefix):
        self.up, self.down = Linear(f"{prefix}/up"), Linear(f"{prefix}/down")

    def __call__(self, params, x):
        return x + self.down(params, jax.nn.gelu(self.up(params, x)))


def test_words_that_objects_hold_are_parameters_that_keys_are_made_of():
    layers = ("up", "down")
    keys = [
        f"block_{i}/{layer}/{p}" for i in range(3) for layer in layers for p in "wb"
    ]

    def model(params, x):
        for i in range(3):
            x = Block(f"block_{i}")(params, x)
        return x

    text = recover(model, dict.fromkeys(keys, np.eye(4)), np.eye(4))
    assert text.count("def linear") == 1 and text.count("def block") == 1, text
    assert 'return x @ params[f"{name}/w"] + params[f"{name}/b"]' in text
    assert 'f"{name}/up"' in text and 'block(params, x, "block_2")' in text


class Product:
    def __init__(self, axes):
        self.axes = axes

    def __call__(self, x):
        y = jnp.einsum(self.axes, x, jnp.sin(x))
        return jnp.tanh(y) * jnp.cos(y)


def test_words_that_objects_hold_are_parameters_where_they_stand():
    text = recover(lambda x: Product("ij,jk->ik")(Product("ij,kj->ik")(x)), X[:, :3])
    assert "def product(x, axes):" in text, text
    assert 'product(product(x, "ij,kj->ik"), "ij,jk->ik")' in text


@dataclass
class Config:
    name: str
    power: int


@dataclass
class Configured:
    config: Config

    def __call__(self, params, x):
        w, b = params[f"{self.config.name}.w"], params[self.config.name + ".b"]
        return jnp.tanh(x @ w) ** self.config.power + b * jnp.sin(x)


def test_what_settings_of_objects_hold_is_found_there():
    def model(params, x):
        for i in range(1, 4):
            x = Configured(Config(f"layer_{i}", i))(params, x)
        return x

    params = {f"layer_{i}.{p}": np.eye(4) for i in range(1, 4) for p in "wb"}
    text = recover(model, params, np.eye(4))
    assert text.count("def configured") == 1, text
    assert ".w" in text and "** power" in text and "for " in text
