"""Sharpness-aware minimisation divides by the norm of the gradient, which may be zero.

https://github.com/google-deepmind/optax/pull/1743
"""

import jax
import jax.numpy as jnp
import optax
from optax import contrib

CALL = "train_step(parameters, state, inputs, targets)"

optimizer = contrib.sam(
    optax.adam(1e-2), optax.chain(contrib.normalize(), optax.sgd(0.05)), sync_period=2
)


def loss(parameters, inputs, targets):
    hidden = jax.nn.relu(inputs @ parameters["first"] - 5.0)
    return jnp.mean((hidden @ parameters["second"] - targets) ** 2)


def train_step(parameters, state, inputs, targets):
    gradients = jax.grad(loss)(parameters, inputs, targets)
    updates, state = optimizer.update(gradients, state, parameters)
    return optax.apply_updates(parameters, updates), state


parts = jax.random.split(jax.random.key(5), 3)
inputs = jax.random.uniform(parts[0], (8, 3))
targets = jnp.zeros((8, 2))
parameters = {
    "first": 0.1 * jax.random.normal(parts[1], (3, 4)),
    "second": 0.1 * jax.random.normal(parts[2], (4, 2)),
}
state = optimizer.init(parameters)
