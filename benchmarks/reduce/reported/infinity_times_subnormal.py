"""Minus infinity times a positive number below 1.2e-38 is NaN.

https://github.com/jax-ml/jax/issues/38632
"""

import jax
import jax.numpy as jnp

CALL = "cross_entropy(logits, targets, mask)"


def cross_entropy(logits, targets, mask):
    masked = jnp.where(mask, logits, -jnp.inf)
    log_probabilities = jax.nn.log_softmax(masked, axis=-1)
    smoothed = targets / jnp.sum(targets, axis=-1, keepdims=True)
    losses = -jnp.sum(smoothed * log_probabilities, axis=-1)
    accuracy = jnp.mean(jnp.argmax(masked, -1) == jnp.argmax(targets, -1))
    return jnp.mean(losses), accuracy


logits = jax.random.normal(jax.random.key(1), (4, 6))
targets = jnp.eye(6)[:4] + 1e-39
mask = jnp.ones((4, 6), bool).at[:, 5].set(False)
