"""A transformer encoder with a padding mask, by hand."""

import jax
import jax.numpy as jnp


def dense(params, x):
    return x @ params["kernel"] + params["bias"]


def layer_norm(params, x):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.var(x, axis=-1, keepdims=True)
    normed = (x - mean) * jax.lax.rsqrt(variance + 1e-6)
    return normed * params["scale"] + params["bias"]


def project(params, x):
    return jnp.einsum("btd,dhk->bthk", x, params["kernel"]) + params["bias"]


def attention(params, x, mask):
    query = project(params["query"], x)
    key = project(params["key"], x)
    value = project(params["value"], x)
    logits = jnp.einsum("bqhd,bkhd->bhqk", query / jnp.sqrt(8), key)
    logits = jnp.where(mask, logits, jnp.finfo(jnp.float32).min)
    weights = jax.nn.softmax(logits)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, value)
    out = params["out"]
    return jnp.einsum("bqhd,hde->bqe", mixed, out["kernel"]) + out["bias"]


def encoder_block(params, x, mask):
    y = layer_norm(params["LayerNorm_0"], x)
    x = x + attention(params["MultiHeadDotProductAttention_0"], y, mask)
    y = layer_norm(params["LayerNorm_1"], x)
    y = jax.nn.gelu(dense(params["Dense_0"], y))
    return x + dense(params["Dense_1"], y)


def encoder(params, tokens):
    present = tokens > 0
    mask = present[:, None, :, None] & present[:, None, None, :]
    x = params["Embed_0"]["embedding"][tokens] + params["positions"]
    for name in ("EncoderBlock_0", "EncoderBlock_1"):
        x = encoder_block(params[name], x, mask)
    weights = present[..., None].astype(x.dtype)
    pooled = jnp.sum(x * weights, axis=1) / jnp.sum(weights, axis=1)
    return dense(params["head"], pooled)


def predict(params, tokens):
    logits = encoder(params["params"], tokens)
    return jax.nn.softmax(logits)


def program(params, tokens):
    return predict, (params, tokens)
