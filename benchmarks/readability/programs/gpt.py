"""The training loss of a small GPT in plain JAX."""

import jax
import jax.numpy as jnp

N_LAYERS = 3
N_HEADS = 2
WIDTH = 16
VOCABULARY = 32
CONTEXT = 8


def layer_norm(params, x):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.var(x, axis=-1, keepdims=True)
    normed = (x - mean) * jax.lax.rsqrt(variance + 1e-5)
    return normed * params["scale"] + params["bias"]


def linear(params, x):
    return x @ params["w"] + params["b"]


def causal_attention(params, x):
    batch, time, width = x.shape
    qkv = linear(params["qkv"], x)
    q, k, v = jnp.split(qkv, 3, axis=-1)
    q = q.reshape(batch, time, N_HEADS, -1)
    k = k.reshape(batch, time, N_HEADS, -1)
    v = v.reshape(batch, time, N_HEADS, -1)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    mask = jnp.tril(jnp.ones((time, time), dtype=bool))
    scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
    weights = jax.nn.softmax(scores, axis=-1)
    heads = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
    return linear(params["proj"], heads.reshape(batch, time, width))


def feed_forward(params, x):
    hidden = jax.nn.gelu(linear(params["up"], x))
    return linear(params["down"], hidden)


def block(params, x):
    x = x + causal_attention(params["attention"], layer_norm(params["norm_1"], x))
    x = x + feed_forward(params["mlp"], layer_norm(params["norm_2"], x))
    return x


def gpt(params, tokens):
    positions = jnp.arange(tokens.shape[1])
    x = params["token_embedding"][tokens] + params["position_embedding"][positions]
    for block_params in params["blocks"]:
        x = block(block_params, x)
    x = layer_norm(params["final_norm"], x)
    return x @ params["token_embedding"].T


def loss_fn(params, tokens):
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    logits = gpt(params, inputs)
    log_probs = jax.nn.log_softmax(logits)
    picked = jnp.take_along_axis(log_probs, targets[..., None], axis=-1)
    return -jnp.mean(picked)


def init_linear(key, n_in, n_out):
    return {"w": 0.1 * jax.random.normal(key, (n_in, n_out)), "b": jnp.zeros(n_out)}


def init_norm():
    return {"scale": jnp.ones(WIDTH), "bias": jnp.zeros(WIDTH)}


def init_block(key):
    keys = jax.random.split(key, 4)
    return {
        "norm_1": init_norm(),
        "attention": {
            "qkv": init_linear(keys[0], WIDTH, 3 * WIDTH),
            "proj": init_linear(keys[1], WIDTH, WIDTH),
        },
        "norm_2": init_norm(),
        "mlp": {
            "up": init_linear(keys[2], WIDTH, 4 * WIDTH),
            "down": init_linear(keys[3], 4 * WIDTH, WIDTH),
        },
    }


def program():
    keys = jax.random.split(jax.random.key(0), N_LAYERS + 3)
    params = {
        "token_embedding": 0.1 * jax.random.normal(keys[0], (VOCABULARY, WIDTH)),
        "position_embedding": 0.1 * jax.random.normal(keys[1], (CONTEXT, WIDTH)),
        "blocks": [init_block(key) for key in keys[3:]],
        "final_norm": init_norm(),
    }
    tokens = jax.random.randint(keys[2], (4, CONTEXT + 1), 0, VOCABULARY)
    return loss_fn, (params, tokens)
