"""Causal multi-head attention in plain JAX."""

import jax
import jax.numpy as jnp

HEADS = 4


def split_heads(x):
    batch, time, width = x.shape
    return x.reshape(batch, time, HEADS, width // HEADS).transpose(0, 2, 1, 3)


def attention(params, x):
    query = split_heads(x @ params["query"])
    key = split_heads(x @ params["key"])
    value = split_heads(x @ params["value"])
    logits = jnp.einsum("bhqd,bhkd->bhqk", query, key)
    logits = logits / jnp.sqrt(query.shape[-1])
    mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    logits = jnp.where(mask, logits, -1e9)
    weights = jax.nn.softmax(logits, axis=-1)
    mixed = jnp.einsum("bhqk,bhkd->bhqd", weights, value)
    mixed = mixed.transpose(0, 2, 1, 3).reshape(x.shape)
    return mixed @ params["out"]


def program():
    keys = jax.random.split(jax.random.key(0), 5)
    names = ("query", "key", "value", "out")
    params = {
        name: 0.2 * jax.random.normal(k, (16, 16))
        for name, k in zip(names, keys, strict=False)
    }
    x = jax.random.normal(keys[4], (4, 8, 16))
    return attention, (params, x)
