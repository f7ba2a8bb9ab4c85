"""Linear regression with momentum and a cosine schedule, by hand."""

import jax
import jax.numpy as jnp


def huber(residuals):
    size = jnp.abs(residuals)
    quadratic = jnp.minimum(size, 1.0)
    return 0.5 * quadratic**2 + (size - quadratic)


def loss_fn(params, x, y):
    predictions = x @ params["slope"] + params["intercept"]
    return jnp.mean(huber(predictions - y))


def cosine_decay(count):
    fraction = jnp.minimum(count, 100) / 100
    return 0.05 * (1 + jnp.cos(jnp.pi * fraction))


def train_step(params, opt_state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    velocity, count = opt_state
    velocity = jax.tree.map(lambda g, v: g + 0.9 * v, grads, velocity)
    rate = cosine_decay(count)
    params = jax.tree.map(lambda p, v: p - rate * v, params, velocity)
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(grads)))
    return (
        params,
        (velocity, jnp.minimum(count, 2**31 - 2) + 1),
        {"loss": loss, "norm": norm},
    )


def program(params, opt_state, x, y):
    momentum, scheduled = opt_state
    return train_step, (params, (momentum.trace, scheduled.count), x, y)
