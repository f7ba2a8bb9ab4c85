"""Scaling by root mean squares without an epsilon is NaN where gradients vanish.

https://github.com/google-deepmind/optax/pull/1553
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

CALL = "train_step(parameters, state, inputs, targets)"

model = eqx.nn.MLP(3, 1, 8, 2, key=jax.random.key(7))
parameters, static = eqx.partition(model, eqx.is_inexact_array)
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0), optax.scale_by_rms(eps=0.0), optax.scale(-1e-2)
)


def loss(parameters, inputs, targets):
    predictions = jax.vmap(eqx.combine(parameters, static))(inputs)
    return jnp.mean((predictions - targets) ** 2)


def train_step(parameters, state, inputs, targets):
    value, gradients = jax.value_and_grad(loss)(parameters, inputs, targets)
    updates, state = optimizer.update(gradients, state, parameters)
    return optax.apply_updates(parameters, updates), state, value


inputs = jax.random.normal(jax.random.key(8), (6, 3)).at[:, 1].set(0.0)
targets = jnp.ones((6, 1))
state = optimizer.init(parameters)
