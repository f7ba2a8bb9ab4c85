"""The CTC loss of a confident alignment is slightly negative, its logarithm NaN.

https://github.com/google-deepmind/optax/issues/1771
"""

import jax
import jax.numpy as jnp
import optax

CALL = "balanced(logits, labels, scores, targets)"


def balanced(logits, labels, scores, targets):
    frames = jnp.zeros(logits.shape[:2])
    padding = jnp.zeros(labels.shape)
    alignment = optax.ctc_loss(logits, frames, labels, padding).mean()
    category = optax.softmax_cross_entropy_with_integer_labels(scores, targets).mean()
    losses = jnp.stack([alignment, category])
    return jnp.sum(jnp.log(losses + 1e-8))


logits = jnp.tile(jnp.array([0.0, 17.0, -3.0]), (2, 2, 1))
labels = jnp.ones((2, 1), jnp.int32)
scores = jax.random.normal(jax.random.key(6), (2, 4))
targets = jnp.array([1, 3])
