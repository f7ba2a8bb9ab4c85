"""Annealed Langevin sampling from a score network with raw uint32 keys."""

import jax
import jax.numpy as jnp

SIGMAS = (1.0, 0.5, 0.1)


def score(params, x, sigma):
    embedding = jnp.stack([jnp.sin(sigma * params["freq"]), jnp.cos(sigma)])
    hidden = jax.nn.swish(x @ params["w1"] + embedding @ params["w_sigma"])
    return (hidden @ params["w2"]) / sigma


def langevin_step(params, x, key, sigma):
    step_size = 0.1 * sigma**2
    noise = jax.random.normal(key, x.shape)
    drift = 0.5 * step_size * score(params, x, sigma)
    return x + drift + jnp.sqrt(step_size) * noise


def sample(params, key, x):
    for sigma in SIGMAS:
        for _ in range(2):
            key, subkey = jax.random.split(key)
            x = langevin_step(params, x, subkey, sigma)
    return jnp.clip(x, -3.0, 3.0)


def program():
    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    params = {
        "freq": jnp.array(2.0),
        "w1": 0.2 * jax.random.normal(keys[0], (2, 16)),
        "w2": 0.2 * jax.random.normal(keys[1], (16, 2)),
        "w_sigma": 0.2 * jax.random.normal(keys[2], (2, 16)),
    }
    return sample, (params, keys[3], jnp.ones((4, 2)))
