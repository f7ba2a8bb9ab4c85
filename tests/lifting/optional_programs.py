"""Small programs that take, together, every optional step (`test_optional.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tests.lifting.installed import library

X = np.linspace(0.5, 2.0, 4, dtype=np.float32)
M = np.linspace(0.1, 1.0, 16, dtype=np.float32).reshape(4, 4)


@dataclass(frozen=True)
class Case:
    """A program, its arguments, and what is asked for."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


def many(x):
    """A loop over many values, of which few are read."""
    carry = tuple(x * i for i in range(14))
    out = jax.lax.fori_loop(0, 3, lambda i, c: tuple(v + c[0] for v in c), carry)
    return out[0] + jnp.sin(out[1]) * 2 + jnp.sin(out[2]) * 3


def described(x: jax.Array) -> jax.Array:
    """Have comments and annotations."""
    # of the user
    y = jnp.sin(x) * jnp.cos(x)
    return y + y


def unread(x):
    """A loop of which no value is read."""
    carry = tuple(x * i for i in range(14))

    def body(c, _):
        jax.debug.callback(print_nothing, c[0])
        return tuple(v + 1 for v in c), None

    jax.lax.scan(body, carry, None, length=2)
    return x


def print_nothing(x):
    pass


def dense(x, weights, scale):
    y = jnp.tanh(x @ weights) * scale
    return y + jnp.sin(x) * (1 - 0.999)


def rolled(x, options):
    y = jnp.tanh(x) * jnp.cos(x) + jnp.roll(x, options["by"], axis=0) * jnp.sin(x)
    return y + jnp.exp(-jnp.abs(y))


def options(x):
    """A function that is given numbers which are no arguments of it, and a type."""
    for each in [{"by": 1}, {"by": 2}, {"by": 3}]:
        x = rolled(x, each)
    x = jnp.maximum(x, jnp.finfo(x.dtype).tiny)
    return x + jnp.ones((4, 4), x.dtype)


def layers(params, x):
    """A loop, functions that differ in a number, names, numbers with names."""
    eps = 1e-6
    for weights in params:
        x = dense(x, weights, 2)
    mean = jnp.mean(x, axis=-1, keepdims=True)
    centered = (x - mean) / (jnp.std(x) + eps)
    rows = [jnp.sin(row) * eps for row in centered]
    state = {"first": rows[0], "all": jnp.stack(rows)}
    return dense(centered, params[0], 3).sum() + state["first"].sum(), state


@jax.jit
def jitted(x):
    return jnp.sin(x) * 2


def unrolled(x, y, z, w, v):
    """Statements that are alike."""
    a = x * 2 + jnp.sin(x)
    b = y * 2 + jnp.sin(y)
    c = z * 2 + jnp.sin(z)
    d = w * 2 + jnp.sin(w)
    e = v * 2 + jnp.sin(v)
    return a, b, c, d, e


def branches(x, flag, steps):
    picked = jax.lax.cond(flag, lambda v: jnp.sin(v), lambda v: v * 2, x)

    def step(carry):
        i, value = carry
        return i + 1, jnp.sin(value)

    _, value = jax.lax.while_loop(lambda carry: carry[0] < steps, step, (0, picked))
    return jax.nn.softmax(value.astype(jnp.float32))


class State(NamedTuple):
    weights: Any
    moments: Any


def step(state, batch):
    """One step of an optimizer over a large tree, whose moments are zeros."""
    new = jax.tree.map(
        lambda w, m: w - 0.1 * m * batch.sum(), state.weights, state.moments
    )
    return State(new, state.moments)


def large_state():
    layer = {name: np.ones((3, 3), np.float32) * 0.3 for name in "abcd"}
    weights = {
        f"layer_{i}": {k: v + i * np.arange(9).reshape(3, 3) for k, v in layer.items()}
        for i in range(6)
    }
    weights = jax.tree.map(lambda v: np.asarray(v, np.float32), weights)
    return State(weights, jax.tree.map(np.zeros_like, weights))


LIBRARY = library("""
def boxed_jit(function):
    @functools.partial(jax.jit, static_argnums=2)
    def run_boxed(kept, given, static):
        result = function(*given["args"])
        return jnp.array(0), {"result": result, "static": None}, None

    def call(*args):
        marker, boxed, _ = run_boxed({"kept": None}, {"args": args}, "static")
        return boxed["result"]

    return call

def block(params, x):
    product = jax.lax.dot_general(x, params["w"], (((1,), (0,)), ((), ())))
    shifted = lax.add(product, jnp.broadcast_to(params["b"], product.shape))
    scaled = jax.vmap(jnp.tanh)(shifted) * jnp.asarray(2.0)
    return jnp.square(jnp.abs(scaled)) + jnp.reshape(jnp.abs(scaled), scaled.shape)

def normalize(x, mean, var):
    centred = (x - mean) * jax.lax.rsqrt(var + 1e-6) * jnp.abs(jnp.sin(var))
    return centred * jnp.cos(mean) + jnp.tan(mean)

class Norm:
    def __call__(self, x):
        mean = x.mean(1)[:, None] * jnp.exp(x)
        return normalize(x, mean, jnp.square(x).mean(1)[:, None]) * jnp.sin(x)
""")


def of_library(params, x):
    y = LIBRARY.block(params, LIBRARY.block(params, x))
    leaves, structure = jax.tree.flatten(params)
    doubled = jax.tree.unflatten(structure, [jnp.sin(leaf) for leaf in leaves])
    grad, aux = jax.grad(
        lambda p: ((p["w"] ** 2).sum(), (x, p["b"] * 2)), has_aux=True
    )(params)
    return y, doubled, grad, aux


def average(x, decay):
    before = x
    x = jnp.sin(x)
    return decay * x + (1 - decay) * before


def closures(x, tree, slots):
    """Functions inside of others, of leaves of trees, and floats of parameters."""

    def unit(y):
        z = jnp.tanh(y @ x)
        return z / jnp.linalg.norm(z)

    shaped = jax.tree.map(lambda leaf: leaf.reshape(2, -1, *leaf.shape[2:]), tree)
    shapes = jax.tree.map(lambda leaf: jnp.ones(leaf.shape[1:]) * leaf[0], shaped)
    kinds = jax.tree.map(
        lambda s: s.weights * s.moments if isinstance(s, State) else jnp.sin(s),
        slots,
        is_leaf=lambda s: isinstance(s, State),
    )
    leaves, structure = jax.tree.flatten(slots)
    row = jnp.sin(x)
    keys = jax.tree.unflatten(structure, list(jnp.stack([row] * len(leaves)) * 2))
    keys = jax.tree.map(jnp.sum, keys)
    scaled = jax.tree.unflatten(structure, [jnp.sin(leaf) / 2 for leaf in leaves])
    rows = jax.vmap(unit)(x), jax.vmap(unit)(2 * x), jax.lax.map(unit, x)
    return rows, shapes, kinds, keys, scaled, average(x, 0.9)


TREE = {"a": np.ones((4, 2, 3), np.float32), "b": np.ones((4, 2), np.float32)}
PARAMS = {"w": M, "b": np.zeros(4, np.float32)}
SLOTS = {"a": State(X, X + 1), "b": [X, State(X, X - 1)], "c": X}

CASES = {
    "many": Case(many, (X,)),
    "unread": Case(unread, (X,)),
    "layers": Case(layers, ([M, M * 2, M * 3], M)),
    "jitted": Case(jitted, (X,)),
    "options": Case(options, (M,)),
    "unrolled": Case(unrolled, (X, X, X, X, X)),
    "branches": Case(branches, (X, np.bool_(True), np.int32(3))),
    "step": Case(step, (large_state(), X)),
    "typed": Case(layers, ([M, M], M), {"types": True}),
    "commented": Case(layers, ([M, M], M), {"comments": "both"}),
    "as written": Case(described, (M,), {"comments": "user"}),
    "annotated": Case(layers, ([M, M], M), {"annotate": "jaxtyping"}),
    "symbolic": Case(layers, ([M, M], M), {"symbolic": True}),
    "library": Case(of_library, (PARAMS, M)),
    "inlined": Case(lambda x: LIBRARY.Norm()(LIBRARY.Norm()(x)), (M,)),
    "boxed": Case(LIBRARY.boxed_jit(dense), (M, M, X)),
    "closures": Case(closures, (M, TREE, SLOTS)),
    "opened": Case(jax.grad(lambda x: jnp.sin(x).sum()), (X,), {"expand": "grad"}),
}
