"""Greedy decoding with a cache of keys and values."""

import jax
import jax.numpy as jnp

N_LAYERS, N_HEADS, WIDTH, WORDS, LENGTH = 4, 4, 32, 64, 16


def rms_norm(scale, x):
    return x * jax.lax.rsqrt(jnp.mean(x**2, axis=-1, keepdims=True) + 1e-6) * scale


def attend(params, cache, x, position):
    q, k, v = jnp.split(x @ params["qkv"], 3, axis=-1)
    q, k, v = (part.reshape(-1, N_HEADS, WIDTH // N_HEADS) for part in (q, k, v))
    keys = cache["keys"].at[:, position].set(k)
    values = cache["values"].at[:, position].set(v)
    scores = jnp.einsum("bhd,bthd->bht", q, keys) * (WIDTH // N_HEADS) ** -0.5
    scores = jnp.where(jnp.arange(LENGTH) <= position, scores, -jnp.inf)
    heads = jnp.einsum("bht,bthd->bhd", jax.nn.softmax(scores, axis=-1), values)
    out = heads.reshape(-1, WIDTH) @ params["out"]
    return out, {"keys": keys, "values": values}


def feed_forward(params, x):
    return (jax.nn.silu(x @ params["gate"]) * (x @ params["up"])) @ params["down"]


def decode_step(params, caches, token, position):
    x = params["embed"][token]
    new_caches = []
    for layer, cache in zip(params["layers"], caches):
        out, cache = attend(layer, cache, rms_norm(layer["norm_1"], x), position)
        x = x + out
        x = x + feed_forward(layer, rms_norm(layer["norm_2"], x))
        new_caches.append(cache)
    logits = rms_norm(params["norm"], x) @ params["embed"].T
    return jnp.argmax(logits, axis=-1), new_caches


@jax.jit
def generate(params, caches, token):
    def step(carry, position):
        token, caches = carry
        token, caches = decode_step(params, caches, token, position)
        return (token, caches), token

    _, tokens = jax.lax.scan(step, (token, caches), jnp.arange(LENGTH))
    return tokens.T


def init_layer(key):
    shapes = {
        "qkv": (WIDTH, 3 * WIDTH),
        "out": (WIDTH, WIDTH),
        "gate": (WIDTH, 64),
        "up": (WIDTH, 64),
        "down": (64, WIDTH),
    }
    keys = jax.random.split(key, len(shapes))
    made = {
        name: 0.1 * jax.random.normal(k, shape)
        for k, (name, shape) in zip(keys, shapes.items())
    }
    return {**made, "norm_1": jnp.ones(WIDTH), "norm_2": jnp.ones(WIDTH)}


keys = jax.random.split(jax.random.key(0), N_LAYERS + 1)
params = {
    "embed": jax.random.normal(keys[0], (WORDS, WIDTH)),
    "layers": [init_layer(key) for key in keys[1:]],
    "norm": jnp.ones(WIDTH),
}
empty = jnp.zeros((2, LENGTH, N_HEADS, WIDTH // N_HEADS))
caches = [{"keys": empty, "values": empty} for _ in range(N_LAYERS)]
token = jnp.array([1, 2])
