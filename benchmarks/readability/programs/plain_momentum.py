"""Linear regression in plain JAX with optax: momentum and a cosine schedule."""

import jax
import jax.numpy as jnp
import optax

optimizer = optax.sgd(optax.cosine_decay_schedule(0.1, 100), momentum=0.9)


def loss_fn(params, x, y):
    predictions = x @ params["slope"] + params["intercept"]
    residuals = predictions - y
    return jnp.mean(optax.huber_loss(residuals))


def train_step(params, opt_state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    updates, opt_state = optimizer.update(grads, opt_state)
    params = optax.apply_updates(params, updates)
    return params, opt_state, {"loss": loss, "norm": optax.global_norm(grads)}


def program():
    x = jax.random.normal(jax.random.key(0), (8, 3))
    y = x @ jnp.array([1.0, -2.0, 0.5]) + 0.3
    params = {"slope": jnp.zeros(3), "intercept": jnp.zeros(())}
    return train_step, (params, optimizer.init(params), x, y)
