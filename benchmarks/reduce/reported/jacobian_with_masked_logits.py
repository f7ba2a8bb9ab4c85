"""Tangents of a cross entropy that allows logits of -inf are NaN.

https://github.com/google-deepmind/optax/pull/1762
"""

import jax
import jax.numpy as jnp
import optax

CALL = "sensitivities(params, features, mask, labels)"


def losses(params, features, mask, labels):
    hidden = jnp.tanh(features @ params["first"])
    logits = jnp.where(mask, hidden @ params["second"], -jnp.inf)
    smooth = 0.9 * labels + 0.1 * mask / mask.sum(-1, keepdims=True)
    return optax.losses.safe_softmax_cross_entropy(logits, smooth)


def sensitivities(params, features, mask, labels):
    return jax.jacfwd(losses)(params, features, mask, labels)


keys = jax.random.split(jax.random.key(0), 3)
params = {
    "first": jax.random.normal(keys[0], (3, 4)),
    "second": jax.random.normal(keys[1], (4, 5)),
}
features = jax.random.normal(keys[2], (6, 3))
labels = jax.nn.one_hot(jnp.arange(6) % 4, 5)
mask = jnp.arange(5) < 4 + jnp.arange(6)[:, None] % 2
