"""Realistic programs of 500 to 3,000 equations, in plain JAX, to hide failures in.

Each builder takes the parts in which a case puts its culprit as functions, so that the
programs stay ordinary. Parameters and data come from NumPy with fixed seeds: making them
compiles nothing. Sizes are small; the number of equations comes from layers and steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

Params = Any


# --- Parts -------------------------------------------------------------------------


def weights(*shape: int, seed: int = 0, scale: float | None = None) -> np.ndarray:
    """Draw a normal matrix, scaled by its number of inputs, as float32."""
    values = np.random.default_rng([seed, *shape]).normal(size=shape)
    factor = shape[0] ** -0.5 if scale is None else scale
    return (values * factor).astype(np.float32)


def layer_norm(x: Array, gain: Array, shift: Array) -> Array:
    """Normalise over the last axis."""
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * gain + shift


def cross_entropy(logits: Array, labels: Array) -> Array:
    """Average the negative log-likelihood of labels."""
    log_probs = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(log_probs, labels[..., None], -1).mean()


def causal_attention(x: Array, p: Params, *, heads: int) -> Array:
    """Attend to earlier positions with several heads."""
    batch, length, width = x.shape

    def split(y: Array) -> Array:
        return y.reshape(batch, length, heads, width // heads)

    query, key, value = (split(x @ p[name]) for name in ("query", "key", "value"))
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) * (width // heads) ** -0.5
    mask = jnp.tril(jnp.ones((length, length), bool))
    probs = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", probs, value)
    return mixed.reshape(batch, length, width) @ p["out"]


def feed_forward(
    x: Array, p: Params, *, activation: Callable[[Array], Array] = jax.nn.silu
) -> Array:
    """Apply two dense layers with an activation in between."""
    return activation(x @ p["up"] + p["up_bias"]) @ p["down"] + p["down_bias"]


# --- Transformer ----------------------------------------------------------------------


def block_params(width: int, hidden: int, seed: int) -> Params:
    """Make the parameters of one transformer block."""
    square = partial(weights, width, width)
    return {
        "attention": {
            name: square(seed=seed + i)
            for i, name in enumerate(("query", "key", "value", "out"))
        },
        "mlp": {
            "up": weights(width, hidden, seed=seed),
            "up_bias": np.zeros(hidden, np.float32),
            "down": weights(hidden, width, seed=seed),
            "down_bias": np.zeros(width, np.float32),
        },
        "norms": [
            {"gain": np.ones(width, np.float32), "shift": np.zeros(width, np.float32)}
            for _ in range(2)
        ],
    }


def transformer_params(
    layers: int, width: int = 16, hidden: int = 32, vocabulary: int = 29
) -> Params:
    """Make the parameters of a small language model."""
    return {
        "embedding": weights(vocabulary, width, seed=1, scale=0.1),
        "blocks": [block_params(width, hidden, 10 * i) for i in range(layers)],
        "gain": np.ones(width, np.float32),
        "shift": np.zeros(width, np.float32),
    }


def tokens(batch: int = 2, length: int = 8, vocabulary: int = 29) -> np.ndarray:
    """Draw token ids, i32[batch, length]."""
    rng = np.random.default_rng(7)
    return rng.integers(0, vocabulary, (batch, length), np.int32)


def transformer_block(
    x: Array,
    p: Params,
    *,
    heads: int = 2,
    attention: Callable[..., Array] = causal_attention,
    activation: Callable[[Array], Array] = jax.nn.silu,
    norm: Callable[[Array, Array, Array], Array] = layer_norm,
) -> Array:
    """Apply attention and two dense layers, each with a residual connection."""
    first, second = p["norms"]
    x = x + attention(norm(x, **first), p["attention"], heads=heads)
    return x + feed_forward(norm(x, **second), p["mlp"], activation=activation)


def transformer_loss(
    params: Params,
    ids: Array,
    *,
    blocks: Callable[[int], Callable[[Array, Params], Array]] = lambda _: (
        transformer_block
    ),
    head: Callable[[Array], Array] = lambda x: x,
    final_norm: Callable[[Array, Array, Array], Array] = layer_norm,
) -> Array:
    """Return a language model's loss; `blocks(i)` is the function of layer `i`."""
    x = params["embedding"][ids[:, :-1]]
    for i, p in enumerate(params["blocks"]):
        x = blocks(i)(x, p)
    x = head(final_norm(x, params["gain"], params["shift"]))
    return cross_entropy(x @ params["embedding"].T, ids[:, 1:])


def scanned_transformer_loss(
    params: Params,
    ids: Array,
    *,
    block: Callable[[Array, Params], Array] = transformer_block,
    checkpoint: bool = True,
) -> Array:
    """Return the loss of a model whose equal layers are scanned over."""
    body = jax.checkpoint(block) if checkpoint else block
    x = params["embedding"][ids[:, :-1]]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params["blocks"])
    x, _ = jax.lax.scan(lambda x, p: (body(x, p), None), x, stacked)
    x = layer_norm(x, params["gain"], params["shift"])
    return cross_entropy(x @ params["embedding"].T, ids[:, 1:])


# --- Training --------------------------------------------------------------------------


def adam_state(params: Params) -> Params:
    """Make the state of a training run: parameters, moments and a counter."""
    zeros = jax.tree.map(np.zeros_like, params)
    return {
        "params": params,
        "mean": zeros,
        "square": jax.tree.map(np.copy, zeros),
        "count": np.int32(3),
    }


def train_step(
    loss: Callable[..., Array],
    *,
    rate: Callable[[Array], Array | float] = lambda count: 1e-3,
    clip: Callable[[Params], Params] | None = None,
) -> Callable[..., tuple[Params, Mapping[str, Array]]]:
    """Make one step of Adam on a loss."""

    def step(state: Params, *batch: Array) -> tuple[Params, Mapping[str, Array]]:
        value, grads = jax.value_and_grad(loss)(state["params"], *batch)
        norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(grads)))
        grads = (clip or partial(clip_by_norm, norm=norm))(grads)
        count = state["count"] + 1
        power = count.astype(jnp.float32)
        scale = rate(count) * jnp.sqrt(1 - 0.999**power) / (1 - 0.9**power)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mean"], grads)
        square = jax.tree.map(
            lambda v, g: 0.999 * v + 0.001 * g * g, state["square"], grads
        )
        params = jax.tree.map(
            lambda p, m, v: p - scale * (m / (jnp.sqrt(v) + 1e-8) + 1e-4 * p),
            state["params"],
            mean,
            square,
        )
        state = {"params": params, "mean": mean, "square": square, "count": count}
        return state, {"loss": value, "norm": norm}

    return step


def clip_by_norm(grads: Params, norm: Array, limit: float = 1.0) -> Params:
    """Scale gradients down to a global norm."""
    factor = jnp.minimum(1.0, limit / (norm + 1e-6))
    return jax.tree.map(lambda g: g * factor, grads)


# --- Convolutional network ---------------------------------------------------------------


def convnet_params(channels: tuple[int, ...], classes: int = 5) -> Params:
    """Make the parameters of a stack of 3x3 convolutions and a classifier."""
    layers = [
        {
            "kernel": weights(3, 3, a, b, seed=i, scale=(9 * a) ** -0.5),
            "gain": np.ones(b, np.float32),
            "shift": np.zeros(b, np.float32),
        }
        for i, (a, b) in enumerate(zip((3, *channels), channels, strict=False))
    ]
    return {"layers": layers, "out": weights(channels[-1], classes, seed=9)}


def convolve(x: Array, kernel: Array, stride: int = 1) -> Array:
    """Convolve images, NHWC."""
    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), "SAME", dimension_numbers=numbers
    )


def batch_norm(x: Array, gain: Array, shift: Array) -> Array:
    """Normalise channels over batch and positions."""
    mean = x.mean((0, 1, 2))
    variance = ((x - mean) ** 2).mean((0, 1, 2))
    return (x - mean) / jnp.sqrt(variance + 1e-5) * gain + shift


def convnet_loss(
    params: Params,
    images: Array,
    labels: Array,
    *,
    norm: Callable[[Array, Array, Array], Array] = batch_norm,
    activation: Callable[[Array], Array] = jax.nn.relu,
    augment: Callable[[Array], Array] = lambda x: x,
) -> Array:
    """Return the loss of a residual convolutional network."""
    x = augment(images)
    for i, p in enumerate(params["layers"]):
        y = activation(norm(convolve(x, p["kernel"]), p["gain"], p["shift"]))
        x = x + y if x.shape == y.shape else y
        if i == 1:
            x = jax.lax.reduce_window(
                x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
            )
    return cross_entropy(x.mean((1, 2)) @ params["out"], labels)


def images(batch: int = 2, size: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Draw images f32[batch, size, size, 3] and labels."""
    rng = np.random.default_rng(3)
    pixels = rng.uniform(0, 1, (batch, size, size, 3)).astype(np.float32)
    return pixels, rng.integers(0, 5, batch, np.int32)


# --- Graph network ------------------------------------------------------------------------


def graph_params(layers: int, width: int = 8) -> Params:
    """Make the parameters of a message-passing network."""
    return {
        "layers": [
            {
                "message": weights(2 * width + 1, width, seed=i),
                "update": weights(2 * width, width, seed=50 + i),
                "bias": np.zeros(width, np.float32),
            }
            for i in range(layers)
        ],
        "out": weights(width, 1, seed=99),
    }


def graph(nodes: int = 6, width: int = 8) -> dict[str, np.ndarray]:
    """Make a ring of nodes with positions, features and a target."""
    rng = np.random.default_rng(5)
    ring = np.arange(nodes, dtype=np.int32)
    return {
        "features": rng.normal(size=(nodes, width)).astype(np.float32),
        "positions": rng.normal(size=(nodes, 3)).astype(np.float32),
        "senders": np.concatenate([ring, (ring + 1) % nodes]),
        "receivers": np.concatenate([(ring + 1) % nodes, ring]),
        "target": np.float32(0.7),
    }


def graph_loss(
    params: Params,
    data: Mapping[str, Array],
    *,
    distance: Callable[[Array], Array] = lambda d: jnp.sqrt((d**2).sum(-1) + 1e-6),
    aggregate: Callable[[Array, Array, int], Array] = jax.ops.segment_sum,
) -> Array:
    """Return the squared error of a message-passing network."""
    x, senders, receivers = data["features"], data["senders"], data["receivers"]
    apart = data["positions"][senders] - data["positions"][receivers]
    length = distance(apart)[:, None]
    for p in params["layers"]:
        pair = jnp.concatenate([x[senders], x[receivers], length], -1)
        messages = jax.nn.silu(pair @ p["message"])
        total = aggregate(messages, receivers, x.shape[0])
        both = jnp.concatenate([x, total], -1)
        x = x + jnp.tanh(both @ p["update"] + p["bias"])
    return ((x @ params["out"]).mean() - data["target"]) ** 2


# --- Differential equations -----------------------------------------------------------------

# Dormand and Prince 1980, the pair of orders 5 and 4.
DOPRI = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
DOPRI_ERROR = (
    71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40
)  # fmt: skip


def dopri_step(
    field: Callable[[Array, Array], Array], time: Array, y: Array, dt: Array
) -> tuple[Array, Array]:
    """Take one step; return the new state and an estimate of the error."""
    slopes = [field(time, y)]
    for row in DOPRI:
        ahead = y + dt * sum(c * k for c, k in zip(row, slopes, strict=True))
        slopes.append(field(time + dt * sum(row), ahead))
    error = dt * sum(c * k for c, k in zip(DOPRI_ERROR, slopes, strict=True))
    return ahead, error


def solve_adaptively(
    field: Callable[[Array, Array], Array],
    y: Array,
    until: Array,
    *,
    dt: float = 0.05,
    tolerance: float = 1e-3,
    scale: Callable[[Array], Array] = lambda y: 1.0 + jnp.abs(y),
    accept: Callable[[Array], Array] = lambda y: y,
    limit: int = 64,
) -> tuple[Array, Array, Array]:
    """Integrate with adaptive steps in a while loop; return time, state and steps."""

    def unfinished(carry: Any) -> Array:
        time, _, _, steps = carry
        return (time < until) & (steps < limit)

    def step(carry: Any) -> Any:
        time, y, dt, steps = carry
        dt = jnp.minimum(dt, until - time)
        ahead, error = dopri_step(field, time, y, dt)
        ratio = jnp.sqrt(((error / (tolerance * scale(y))) ** 2).mean())
        good = ratio <= 1.0
        y = jnp.where(good, accept(ahead), y)
        factor = jnp.clip(0.9 * (ratio + 1e-6) ** -0.2, 0.2, 5.0)
        return jnp.where(good, time + dt, time), y, dt * factor, steps + 1

    start = (jnp.zeros_like(until), y, jnp.asarray(dt, y.dtype), 0)
    time, y, _, steps = jax.lax.while_loop(unfinished, step, start)
    return time, y, steps


def brusselator(p: Mapping[str, Array], time: Array, y: Array) -> Array:
    """Return the rates of a chemical oscillator on a ring, f32[2, cells]."""
    u, v = y
    pulse = 1.0 + 0.1 * jnp.sin(p["frequency"] * time)
    product = u * u * v
    du = p["a"] * pulse + product - (p["b"] + 1.0) * u + p["d"] * laplacian(u)
    dv = p["b"] * u - product + 0.5 * p["d"] * laplacian(v)
    return jnp.stack([du, dv])


def laplacian(u: Array) -> Array:
    """Take second differences on a ring."""
    return jnp.roll(u, 1) - 2.0 * u + jnp.roll(u, -1)


def chemistry(cells: int = 12) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Make the parameters and the initial state of the oscillator."""
    rng = np.random.default_rng(11)
    rates = {"a": 1.0, "b": 2.5, "d": 0.2, "frequency": 3.0}
    start = np.stack([np.ones(cells), np.full(cells, 2.0)])
    noise = 0.1 * rng.uniform(size=(2, cells))
    return (
        {name: np.float32(rate) for name, rate in rates.items()},
        (start + noise).astype(np.float32),
    )


# --- Sampling -----------------------------------------------------------------------------


def hmc(
    log_density: Callable[[Any], Array],
    key: Array,
    position: Any,
    *,
    samples: int = 3,
    leapfrogs: int = 2,
    step_size: float | Array = 0.05,
    unrolled: bool = True,
) -> tuple[Any, Array]:
    """Sample by Hamiltonian Monte Carlo; return the positions and acceptances."""
    gradient = jax.grad(log_density)

    def kinetic(momentum: Any) -> Array:
        return 0.5 * sum(jnp.sum(m * m) for m in jax.tree.leaves(momentum))

    def leapfrog(position: Any, momentum: Any) -> tuple[Any, Any]:
        half = partial(jax.tree.map, lambda m, g: m + 0.5 * step_size * g)
        momentum = half(momentum, gradient(position))
        position = jax.tree.map(lambda q, m: q + step_size * m, position, momentum)
        return position, half(momentum, gradient(position))

    def sample(position: Any, key: Array) -> tuple[Any, tuple[Any, Array]]:
        leaves, tree = jax.tree.flatten(position)
        last, *keys = jax.random.split(key, len(leaves) + 1)
        draws = [jax.random.normal(k, q.shape) for k, q in zip(keys, leaves)]
        momentum = jax.tree.unflatten(tree, draws)
        proposal, final = position, momentum
        for _ in range(leapfrogs):
            proposal, final = leapfrog(proposal, final)
        gain = log_density(proposal) - log_density(position)
        gain = gain + kinetic(momentum) - kinetic(final)
        accepted = jnp.log(jax.random.uniform(last)) < gain
        position = jax.tree.map(partial(jnp.where, accepted), proposal, position)
        return position, (position, accepted)

    keys = jax.random.split(key, samples)
    if not unrolled:
        return jax.lax.scan(sample, position, keys)[1]
    outs = []
    for i in range(samples):
        position, out = sample(position, keys[i])
        outs.append(out)
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *outs)


def hierarchical_log_density(
    q: Mapping[str, Array], x: Array, y: Array, group: Array
) -> Array:
    """Return the log-density of a logistic regression with groups."""
    scale = jnp.exp(q["log_scale"])
    logits = x @ q["slope"] + q["mean"] + scale * q["offset"][group]
    likelihood = jnp.sum(y * logits - jax.nn.softplus(logits))
    prior = -0.5 * (jnp.sum(q["slope"] ** 2) + jnp.sum(q["offset"] ** 2))
    return likelihood + prior - 0.5 * (q["mean"] ** 2 + q["log_scale"] ** 2)


def survey(rows: int = 12, groups: int = 3) -> tuple[Any, ...]:
    """Make a position and the data of the regression: q, x, y, group."""
    rng = np.random.default_rng(13)
    x = rng.normal(size=(rows, 4)).astype(np.float32)
    position = {
        "slope": np.zeros(4, np.float32),
        "offset": np.full(groups, 0.1, np.float32),
        "mean": np.float32(0.2),
        "log_scale": np.float32(-0.3),
    }
    y = (rng.uniform(size=rows) < 0.5).astype(np.float32)
    return position, x, y, rng.integers(0, groups, rows, np.int32)


# --- Mixture of experts -----------------------------------------------------------------


def moe_params(layers: int, experts: int = 4, width: int = 8) -> Params:
    """Make the parameters of a stack of mixtures of experts."""
    return [
        {
            "router": weights(width, experts, seed=i),
            "up": weights(width, experts, 2 * width, seed=20 + i),
            "down": weights(2 * width, experts, width, seed=40 + i),
            "gain": np.ones(width, np.float32),
            "shift": np.zeros(width, np.float32),
        }
        for i in range(layers)
    ]


def route(logits: Array, chosen: int = 2) -> Array:
    """Turn logits f32[n, experts] into gates, of which all but some are zero."""
    best, index = jax.lax.top_k(logits, chosen)
    gates = jax.nn.softmax(best)
    return jax.vmap(lambda g, i, row: jnp.zeros_like(row).at[i].set(g))(
        gates, index, logits
    )


def moe_loss(
    params: Params,
    x: Array,
    target: Array,
    *,
    router: Callable[[Array], Array] = route,
    activation: Callable[[Array], Array] = jax.nn.gelu,
) -> Array:
    """Return the squared error of a stack of mixtures of experts."""
    for p in params:
        y = layer_norm(x, p["gain"], p["shift"])
        gates = router(y @ p["router"])
        hidden = activation(jnp.einsum("nd,deh->neh", y, p["up"]))
        out = jnp.einsum("neh,hed->ned", hidden, p["down"])
        balance = (gates.mean(0) ** 2).sum()
        x = x + jnp.einsum("ned,ne->nd", out, gates) + 0.01 * balance
    return ((x - target) ** 2).mean()


# --- Filtering ---------------------------------------------------------------------------


def kalman_log_likelihood(
    p: Mapping[str, Array],
    observed: Array,
    *,
    solve: Callable[[Array, Array], Array] = jnp.linalg.solve,
    innovation: Callable[[Array], Array] = lambda x: x,
) -> Array:
    """Return the log-likelihood of a linear state-space model, unrolled in time."""
    mean, cov = p["mean"], p["cov"]
    total = jnp.zeros((), observed.dtype)
    for row in observed:
        mean = p["advance"] @ mean
        cov = p["advance"] @ cov @ p["advance"].T + p["noise"]
        spread = p["observe"] @ cov @ p["observe"].T + p["error"]
        residual = innovation(row - p["observe"] @ mean)
        gain = solve(spread, p["observe"] @ cov).T
        total = total - 0.5 * residual @ solve(spread, residual[:, None])[:, 0]
        mean = mean + gain @ residual
        cov = cov - gain @ p["observe"] @ cov
    return total


def tracking(steps: int = 12, states: int = 4) -> tuple[dict[str, np.ndarray], Any]:
    """Make the parameters of a tracking model, and its observations."""
    rng = np.random.default_rng(17)
    eye = np.eye(states, dtype=np.float32)
    params = {
        "mean": np.zeros(states, np.float32),
        "cov": eye,
        "advance": eye + 0.1 * np.eye(states, k=1, dtype=np.float32),
        "noise": 0.01 * eye,
        "observe": np.eye(2, states, dtype=np.float32),
        "error": 0.1 * np.eye(2, dtype=np.float32),
    }
    return params, rng.normal(size=(steps, 2)).astype(np.float32)
