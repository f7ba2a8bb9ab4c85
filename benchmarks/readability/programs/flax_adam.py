"""A training step of a flax MLP with optax's Adam."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class MLP(nn.Module):
    """Two dense layers."""

    @nn.compact
    def __call__(self, x):
        x = nn.Dense(32)(x)
        x = nn.gelu(x)
        return nn.Dense(10)(x)


model = MLP()
optimizer = optax.adam(1e-3)


def loss_fn(params, x, labels):
    logits = model.apply(params, x)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    return losses.mean()


def train_step(params, opt_state, x, labels):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, labels)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, loss


def program():
    x = jax.random.normal(jax.random.key(0), (8, 16))
    labels = jnp.arange(8) % 10
    params = model.init(jax.random.key(1), x)
    return train_step, (params, optimizer.init(params), x, labels)
