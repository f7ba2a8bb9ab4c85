"""A training step of an MLP with Adam, by hand."""

import jax
import jax.numpy as jnp

LEARNING_RATE = 1e-3
B1 = 0.9
B2 = 0.999
EPS = 1e-8


def dense(params, x):
    return x @ params["kernel"] + params["bias"]


def loss_fn(params, x, labels):
    hidden = jax.nn.gelu(dense(params["params"]["Dense_0"], x))
    logits = dense(params["params"]["Dense_1"], hidden)
    log_probs = jax.nn.log_softmax(logits)
    picked = jnp.take_along_axis(log_probs, labels[:, None], axis=-1)
    return -jnp.mean(picked)


def adam(grads, state):
    count, mu, nu = state
    count = jnp.minimum(count, 2**31 - 2) + 1
    mu = jax.tree.map(lambda m, g: B1 * m + (1 - B1) * g, mu, grads)
    nu = jax.tree.map(lambda v, g: B2 * v + (1 - B2) * g**2, nu, grads)
    mu_hat = jax.tree.map(lambda m: m / (1 - B1**count), mu)
    nu_hat = jax.tree.map(lambda v: v / (1 - B2**count), nu)
    updates = jax.tree.map(
        lambda m, v: -LEARNING_RATE * m / (jnp.sqrt(v) + EPS), mu_hat, nu_hat
    )
    return updates, (count, mu, nu)


def train_step(params, opt_state, x, labels):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, labels)
    updates, opt_state = adam(grads, opt_state)
    params = jax.tree.map(jnp.add, params, updates)
    return params, opt_state, loss


def program(params, opt_state, x, labels):
    adam_state = opt_state[0]
    state = (adam_state.count, adam_state.mu, adam_state.nu)
    return train_step, (params, state, x, labels)
