"""A training step whose gradient is NaN: two embeddings of a batch are the same.

The loss itself is finite. Find the cause with

    untrace reduce examples/nan_gradient.py 'train_step(params, moments, batch)' \
        --keep "nan()" -o repro.py
"""

import jax
import jax.numpy as jnp
import numpy as np

LAYERS, WIDTH, BATCH = 6, 16, 8


def layer_norm(x, scale, bias):
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-6) * scale + bias


def block(params, x):
    h = layer_norm(x, params["scale"], params["bias"])
    return x + jax.nn.gelu(h @ params["up"]) @ params["down"]


def embed(params, x):
    for layer in params["layers"]:
        x = block(layer, x)
    return x @ params["head"]


def contrastive_loss(params, batch):
    left, right = embed(params, batch["left"]), embed(params, batch["right"])
    distance = jnp.linalg.norm(left - right, axis=-1)
    pull = jnp.square(distance)
    push = jnp.square(jnp.maximum(1.0 - distance, 0.0))
    return jnp.mean(jnp.where(batch["is_pair"], pull, push))


def adam(grads, moments, params, rate=1e-3):
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments["first"], grads)
    second = jax.tree.map(
        lambda v, g: 0.99 * v + 0.01 * g * g, moments["second"], grads
    )
    params = jax.tree.map(
        lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), params, first, second
    )
    return params, {"first": first, "second": second}


@jax.jit
def train_step(params, moments, batch):
    loss, grads = jax.value_and_grad(contrastive_loss)(params, batch)
    params, moments = adam(grads, moments, params)
    return loss, params, moments


def _weights(rng, *shape):
    return (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)


_rng = np.random.default_rng(0)
params = {
    "layers": [
        {
            "scale": np.ones(WIDTH, np.float32),
            "bias": np.zeros(WIDTH, np.float32),
            "up": _weights(_rng, WIDTH, 4 * WIDTH),
            "down": _weights(_rng, 4 * WIDTH, WIDTH),
        }
        for _ in range(LAYERS)
    ],
    "head": _weights(_rng, WIDTH, 4),
}
moments = {name: jax.tree.map(np.zeros_like, params) for name in ("first", "second")}
batch = {
    "left": _weights(_rng, BATCH, WIDTH),
    "right": _weights(_rng, BATCH, WIDTH),
    "is_pair": np.arange(BATCH) % 2 == 0,
}
batch["right"][2] = batch["left"][2]  # a pair of identical inputs
