"""A gradient descent step of an equinox MLP, vmapped over the batch."""

import equinox as eqx
import jax
import jax.numpy as jnp


def loss_fn(model, x, y):
    predictions = jax.vmap(model)(x)
    return jnp.mean(jnp.square(predictions - y))


def train_step(model, x, y):
    loss, grads = eqx.filter_value_and_grad(loss_fn)(model, x, y)
    updates = jax.tree.map(lambda g: -0.01 * g, grads)
    model = eqx.apply_updates(model, updates)
    return model, loss


def program():
    model = eqx.nn.MLP(8, 2, width_size=16, depth=2, key=jax.random.key(0))
    params, static = eqx.partition(model, eqx.is_array)

    def step(params, x, y):
        model, loss = train_step(eqx.combine(params, static), x, y)
        return eqx.filter(model, eqx.is_array), loss

    x = jax.random.normal(jax.random.key(1), (4, 8))
    y = jax.random.normal(jax.random.key(2), (4, 2))
    return step, (params, x, y)
