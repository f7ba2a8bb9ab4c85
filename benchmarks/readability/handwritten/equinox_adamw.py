"""Clipped gradients and AdamW with a warm-up schedule, by hand."""

import jax
import jax.numpy as jnp

B1 = 0.9
B2 = 0.999
EPS = 1e-8
WEIGHT_DECAY = 1e-3


def mlp(layers, x):
    (w1, b1), (w2, b2) = layers
    hidden = jnp.tanh(x @ w1.T + b1)
    return hidden @ w2.T + b2


def loss_fn(params, x, y):
    logits = mlp(params, x)[:, 0]
    losses = -y * jax.nn.log_sigmoid(logits) - (1 - y) * jax.nn.log_sigmoid(-logits)
    return jnp.mean(losses)


def clip_by_global_norm(grads):
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(grads)))
    return jax.tree.map(lambda g: jnp.where(norm < 1.0, g, g / norm), grads)


def schedule(step):
    return 1e-2 - 9e-3 * (1 - jnp.clip(step, 0, 10) / 10)


def increment(count):
    return jnp.minimum(count, 2**31 - 2) + 1


def adamw(grads, state, params):
    count, mu, nu, step = state
    count = increment(count)
    mu = jax.tree.map(lambda m, g: B1 * m + (1 - B1) * g, mu, grads)
    nu = jax.tree.map(lambda v, g: B2 * v + (1 - B2) * g**2, nu, grads)

    def update(p, m, v):
        m_hat = m / (1 - B1**count)
        v_hat = v / (1 - B2**count)
        direction = m_hat / (jnp.sqrt(v_hat) + EPS) + WEIGHT_DECAY * p
        return -schedule(step) * direction

    updates = jax.tree.map(update, params, mu, nu)
    return updates, (count, mu, nu, increment(step))


def train_step(params, opt_state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    grads = clip_by_global_norm(grads)
    updates, opt_state = adamw(grads, opt_state, params)
    params = jax.tree.map(jnp.add, params, updates)
    return params, opt_state, loss


def program(params, opt_state, x, y):
    _, (adam, _, scheduled) = opt_state
    layers = [
        [(layer.weight, layer.bias) for layer in m.layers]
        for m in (params, adam.mu, adam.nu)
    ]
    return train_step, (
        layers[0],
        (adam.count, layers[1], layers[2], scheduled.count),
        x,
        y,
    )
