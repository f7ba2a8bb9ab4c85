"""Twelve equal residual layers, unrolled by a Python loop."""

import jax
import jax.numpy as jnp

N_LAYERS = 12


def normalize(x):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / jnp.sqrt(jnp.mean(centred**2, axis=-1, keepdims=True) + 1e-5)


def layer(params, x):
    hidden = normalize(x) @ params["w"] + params["b"]
    gate = jax.nn.sigmoid(x @ params["gate"])
    return x + gate * jnp.tanh(hidden)


def deep_mlp(params, x):
    for layer_params in params:
        x = layer(layer_params, x)
    return jnp.sum(x**2, axis=-1)


def program():
    keys = jax.random.split(jax.random.key(0), N_LAYERS)
    params = [
        {
            "w": 0.2 * jax.random.normal(key, (16, 16)),
            "b": jnp.zeros(16),
            "gate": 0.2 * jax.random.normal(key, (16, 16)),
        }
        for key in keys
    ]
    x = jax.random.normal(jax.random.key(1), (4, 16))
    return deep_mlp, (params, x)
