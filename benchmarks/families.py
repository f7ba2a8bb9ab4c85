"""Families of programs by size, for what level `"api"` costs.

Each makes a function and its arguments for a number of layers, sites, calls or statements.
Those of packages raise `ImportError` where the package is not installed.
"""

from __future__ import annotations

import importlib.util
import linecache
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

Program = tuple[Callable[..., Any], tuple[Any, ...]]

WIDTH = 8
X = jnp.linspace(0.0, 1.0, 4 * WIDTH).reshape(4, WIDTH)
Y = jnp.linspace(1.0, 2.0, 4 * WIDTH).reshape(4, WIDTH)


def plain(n_layers: int) -> Program:
    """A training step of a network as plain JAX has it."""

    def layer(params, x):
        h = x @ params["w"] + params["b"]
        h = (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5)
        return jax.nn.gelu(h * params["scale"]) + x

    def loss(params, x, y):
        for each in params:
            x = layer(each, x)
        return jnp.mean((x - y) ** 2)

    def step(params, momentum, x, y):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
        params = jax.tree.map(lambda p, m: p - 0.1 * m, params, momentum)
        return params, momentum, value

    one = {"w": jnp.eye(WIDTH), "b": jnp.zeros(WIDTH), "scale": jnp.ones(WIDTH)}
    params = [one] * n_layers
    return step, (params, params, X, Y)


def equinox(n_layers: int) -> Program:
    """A training step of `equinox.nn` layers with optax."""
    import equinox as eqx
    import optax

    class Block(eqx.Module):
        linear: eqx.nn.Linear
        norm: eqx.nn.LayerNorm

        def __init__(self, key):
            self.linear = eqx.nn.Linear(WIDTH, WIDTH, key=key)
            self.norm = eqx.nn.LayerNorm(WIDTH)

        def __call__(self, x):
            return x + jax.nn.gelu(self.linear(self.norm(x)))

    class Model(eqx.Module):
        blocks: list[Block]

        def __call__(self, x):
            for block in self.blocks:
                x = block(x)
            return x

    model = Model([Block(k) for k in jax.random.split(jax.random.key(0), n_layers)])
    optimizer = optax.adam(1e-3)
    state = optimizer.init(eqx.filter(model, eqx.is_array))

    def loss(model, x, y):
        return jnp.mean((jax.vmap(model)(x) - y) ** 2)

    def step(model, state, x, y):
        value, grads = eqx.filter_value_and_grad(loss)(model, x, y)
        updates, state = optimizer.update(grads, state, model)
        return eqx.apply_updates(model, updates), state, value

    return step, (model, state, X, Y)


def _with_adam(loss: Callable[..., Any], params: Any) -> Program:
    """Make a training step of a loss."""
    import optax

    optimizer = optax.adam(1e-3)

    def step(params, state, x, y):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, value

    return step, (params, optimizer.init(params), X, Y)


def linen(n_layers: int) -> Program:
    """A training step of `flax.linen` layers with optax."""
    from flax import linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            return x + nn.gelu(nn.Dense(WIDTH)(nn.LayerNorm()(x)))

    class Model(nn.Module):
        n_layers: int

        @nn.compact
        def __call__(self, x):
            for _ in range(self.n_layers):
                x = Block()(x)
            return x

    model = Model(n_layers)
    params = model.init(jax.random.key(0), X)

    def loss(params, x, y):
        return jnp.mean((model.apply(params, x) - y) ** 2)

    return _with_adam(loss, params)


def nnx(n_layers: int) -> Program:
    """A training step of `flax.nnx` layers with optax."""
    from flax import nnx

    class Block(nnx.Module):
        def __init__(self, rngs):
            self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)
            self.linear = nnx.Linear(WIDTH, WIDTH, rngs=rngs)

        def __call__(self, x):
            return x + nnx.gelu(self.linear(self.norm(x)))

    class Model(nnx.Module):
        def __init__(self, rngs):
            self.blocks = nnx.List([Block(rngs) for _ in range(n_layers)])

        def __call__(self, x):
            for block in self.blocks:
                x = block(x)
            return x

    graph, params = nnx.split(Model(nnx.Rngs(0)))

    def loss(params, x, y):
        return jnp.mean((nnx.merge(graph, params)(x) - y) ** 2)

    return _with_adam(loss, params)


def haiku(n_layers: int) -> Program:
    """A training step of haiku layers with optax."""
    import haiku as hk

    def forward(x):
        for _ in range(n_layers):
            h = hk.LayerNorm(-1, True, True)(x)
            x = x + jax.nn.gelu(hk.Linear(WIDTH)(h))
        return x

    model = hk.without_apply_rng(hk.transform(forward))
    params = model.init(jax.random.key(0), X)

    def loss(params, x, y):
        return jnp.mean((model.apply(params, x) - y) ** 2)

    return _with_adam(loss, params)


def numpyro(n_sites: int) -> Program:
    """The gradient of the log density of a model with sites."""
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer.util import log_density

    def model(x, y):
        total = 0.0
        for i in range(n_sites):
            w = numpyro.sample(f"w{i}", dist.Normal(jnp.zeros(WIDTH), 1.0).to_event(1))
            total = total + x @ w
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        numpyro.sample("y", dist.Normal(total, scale), obs=y)

    def gradient(params, x, y):
        return jax.grad(lambda p: log_density(model, (x, y), {}, p)[0])(params)

    params = {f"w{i}": jnp.ones(WIDTH) for i in range(n_sites)} | {"scale": 1.0}
    return gradient, (params, X, Y[:, 0])


def jits(n_calls: int) -> Program:
    """Small jitted functions, called one after the other."""

    @jax.jit
    def turn(x, angle):
        return jnp.cos(angle) * x + jnp.sin(angle)

    def function(x):
        for i in range(n_calls):
            x = turn(x, 0.1 * (i % 7)) * 0.5
        return x

    return function, (X,)


def irregular(n_statements: int) -> Program:
    """Straight-line code without any repetition, as generated code is."""
    rng = random.Random(n_statements)
    lines = ["import jax", "import jax.numpy as jnp", "", "", "def function(x, y):"]
    names = ["x", "y"]
    unary = ["sin", "cos", "tanh", "exp", "abs", "square", "negative", "floor"]
    for i in range(n_statements):
        a, b = rng.choice(names[-6:]), rng.choice(names[-6:])
        kind = rng.randrange(4)
        if kind == 0:
            right = f"jnp.{rng.choice(unary)}({a})"
        elif kind == 1:
            right = f"{a} {rng.choice('+-*')} {b}"
        elif kind == 2:
            right = f"jnp.{rng.choice(['maximum', 'minimum', 'arctan2'])}({a}, {b})"
        else:
            right = f"{a} * {rng.uniform(0.1, 2.0):.3f}"
        name = f"v{i}"
        lines.append(f"    {name} = {right}")
        names.append(name)
    lines.append(f"    return {' + '.join(names[-6:])}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"irregular_{n_statements}.py"
        path.write_text("\n".join(lines) + "\n")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        linecache.checkcache(str(path))
        linecache.getlines(str(path))
    return module.function, (X, Y)


def diffrax(n_steps: int) -> Program:
    """A solve of an ordinary differential equation."""
    import diffrax as dfx

    def solve(y):
        term = dfx.ODETerm(lambda t, y, args: -jnp.sin(y) * 0.5)
        made = dfx.diffeqsolve(
            term, dfx.Tsit5(), 0.0, 1.0, 0.1, y, max_steps=n_steps,
            stepsize_controller=dfx.PIDController(rtol=1e-3, atol=1e-6),
        )  # fmt: skip
        return made.ys

    return solve, (X[0],)


def optimistix(n_steps: int) -> Program:
    """A minimisation by BFGS."""
    import optimistix as optx

    def fit(y):
        solver = optx.BFGS(rtol=1e-4, atol=1e-4)
        made = optx.minimise(
            lambda y, _: jnp.sum((y - 1.0) ** 4), solver, y, max_steps=n_steps
        )
        return made.value

    return fit, (X[0],)


def hmc(n_steps: int) -> Program:
    """A step of Hamiltonian Monte Carlo."""
    import blackjax

    def density(position):
        return -0.5 * jnp.sum(position**2) - jnp.sum(jnp.log1p(position**2))

    kernel = blackjax.hmc(density, 1e-2, jnp.ones(WIDTH), n_steps)
    return kernel.step, (jax.random.key(0), kernel.init(X[0]))


FAMILIES: dict[str, tuple[Callable[[int], Program], tuple[int, ...], float]] = {
    "plain": (plain, (1, 4, 8, 24), 4.0),
    "equinox": (equinox, (1, 4, 8, 24), 4.0),
    "linen": (linen, (1, 4, 8, 24), 4.0),
    "nnx": (nnx, (1, 4, 8, 24), 4.0),
    "haiku": (haiku, (1, 4, 8, 24), 4.0),
    "numpyro": (numpyro, (2, 4, 8, 16), 8.0),
    "jits": (jits, (25, 50, 100, 400), 5.0),
    "irregular": (irregular, (100, 300, 1_000, 3_000), 5.0),
    "diffrax": (diffrax, (16,), 8.0),
    "optimistix": (optimistix, (16,), 8.0),
    "hmc": (hmc, (10,), 8.0),
}
"""For each family its maker, its sizes, and the ratio that is wanted."""
