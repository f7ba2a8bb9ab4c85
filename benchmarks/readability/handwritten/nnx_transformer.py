"""The loss of a causal transformer with RMS norms and gated layers, by hand."""

import jax
import jax.numpy as jnp


def rms_norm(params, x):
    mean_square = jnp.mean(jnp.square(x), axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(mean_square + 1e-6) * params["scale"]


def project(params, x):
    return jnp.einsum("btd,dhk->bthk", x, params["kernel"]) + params["bias"]


def attention(params, x):
    query = project(params["query"], x)
    key = project(params["key"], x)
    value = project(params["value"], x)
    logits = jnp.einsum("bqhd,bkhd->bhqk", query / jnp.sqrt(8), key)
    mask = jnp.tril(jnp.ones((8, 8), bool))
    logits = jnp.where(mask, logits, jnp.finfo(jnp.float32).min)
    weights = jax.nn.softmax(logits)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, value)
    out = params["out"]
    return jnp.einsum("bqhd,hde->bqe", mixed, out["kernel"]) + out["bias"]


def block(params, x):
    x = x + attention(params["attention"], rms_norm(params["norm_1"], x))
    y = rms_norm(params["norm_2"], x)
    gated = jax.nn.silu(y @ params["gate"]["kernel"]) * (y @ params["up"]["kernel"])
    return x + gated @ params["down"]["kernel"]


def transformer(state, tokens):
    embedding = state["embed"]["embedding"]
    x = embedding[tokens]
    x = block(state["block_1"], x)
    x = block(state["block_2"], x)
    return rms_norm(state["norm"], x) @ embedding.T


def loss_fn(state, tokens):
    logits = transformer(state, tokens[:, :-1])
    targets = jax.nn.one_hot(tokens[:, 1:], 20)
    log_probs = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.sum(log_probs * targets, axis=-1))


def program(state, tokens):
    return loss_fn, (state, tokens)
