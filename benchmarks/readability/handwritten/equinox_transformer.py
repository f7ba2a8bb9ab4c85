"""A transformer for sequence classification, one example at a time, by hand."""

import jax
import jax.numpy as jnp


def linear(params, x):
    return x @ params["weight"].T + params["bias"]


def layer_norm(params, x):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.var(x, axis=-1, keepdims=True)
    normed = (x - mean) * jax.lax.rsqrt(variance + 1e-5)
    return params["weight"] * normed + params["bias"]


def attention(params, x):
    query = (x @ params["query"].T).reshape(8, 2, 8)
    key = (x @ params["key"].T).reshape(8, 2, 8)
    value = (x @ params["value"].T).reshape(8, 2, 8)
    logits = jnp.einsum("shd,Shd->hsS", query / jnp.sqrt(8), key)
    weights = jax.nn.softmax(logits, axis=-1)
    mixed = jnp.einsum("hsS,Shd->shd", weights, value)
    return mixed.reshape(8, 16) @ params["output"].T


def block(params, x):
    x = x + attention(params["attention"], layer_norm(params["norm_1"], x))
    hidden = jax.nn.gelu(linear(params["up"], layer_norm(params["norm_2"], x)))
    return x + linear(params["down"], hidden)


def transformer(params, tokens):
    x = params["embedding"][tokens] + params["positions"]
    for block_params in params["blocks"]:
        x = block(block_params, x)
    return linear(params["head"], jnp.mean(x, axis=0))


def predict(params, batch):
    logits = jax.vmap(transformer, in_axes=(None, 0))(params, batch)
    return jax.nn.log_softmax(logits)


def program(params, batch):
    def layer(module):
        return {"weight": module.weight, "bias": module.bias}

    blocks = [
        {
            "attention": {
                "query": one.attention.query_proj.weight,
                "key": one.attention.key_proj.weight,
                "value": one.attention.value_proj.weight,
                "output": one.attention.output_proj.weight,
            },
            **{n: layer(getattr(one, n)) for n in ("norm_1", "norm_2", "up", "down")},
        }
        for one in params.blocks
    ]
    plain = {
        "embedding": params.embedding.weight,
        "positions": params.positions,
        "blocks": blocks,
        "head": layer(params.head),
    }
    return predict, (plain, batch)
