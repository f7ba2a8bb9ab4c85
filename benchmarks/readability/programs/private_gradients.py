"""Differentially private SGD: per-example gradients, clipped, summed, with noise."""

import functools

import jax
import jax.numpy as jnp


def predict(params, x):
    hidden = jnp.tanh(params["w1"] @ x + params["b1"])
    return params["w2"] @ hidden


def loss_fn(params, x, y):
    return jnp.sum((predict(params, x) - y) ** 2)


def clip(grads, max_norm):
    leaves = jax.tree.leaves(grads)
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in leaves))
    factor = jnp.minimum(1.0, max_norm / (norm + 1e-6))
    return jax.tree.map(lambda g: factor * g, grads)


@functools.partial(jax.vmap, in_axes=(None, 0, 0))
def clipped_grad(params, x, y):
    grads = jax.grad(loss_fn)(params, x, y)
    return clip(grads, 1.0)


def add_noise(key, grads):
    leaves, tree = jax.tree.flatten(grads)
    keys = jax.random.split(key, len(leaves))
    noisy = [
        g + 0.1 * jax.random.normal(k, g.shape)
        for k, g in zip(keys, leaves, strict=True)
    ]
    return jax.tree.unflatten(tree, noisy)


def train_step(params, key, xs, ys):
    per_example = clipped_grad(params, xs, ys)
    grads = jax.tree.map(lambda g: jnp.mean(g, axis=0), per_example)
    grads = add_noise(key, grads)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def program():
    keys = jax.random.split(jax.random.key(0), 5)
    params = {
        "w1": jax.random.normal(keys[0], (16, 6)),
        "b1": jnp.zeros(16),
        "w2": jax.random.normal(keys[1], (2, 16)),
    }
    xs = jax.random.normal(keys[2], (4, 6))
    ys = jax.random.normal(keys[3], (4, 2))
    return train_step, (params, keys[4], xs, ys)
