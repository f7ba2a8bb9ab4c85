"""Updates of norm zero that are clipped to the norm zero are NaN.

https://github.com/google-deepmind/optax/pull/1752
"""

import jax
import jax.numpy as jnp
import optax

CALL = "train_step(params, state, batch, max_norm)"


def loss(params, batch):
    hidden = jax.nn.relu(batch @ params["encoder"] + params["bias"])
    return jnp.mean((hidden @ params["decoder"] - batch) ** 2)


optimizer = optax.scale_by_adam()


def train_step(params, state, batch, max_norm):
    value, gradients = jax.value_and_grad(loss)(params, batch)
    frozen = jax.tree.map(jnp.zeros_like, gradients)
    clipper = optax.clip_by_global_norm(max_norm)
    clipped, _ = clipper.update(frozen, clipper.init(params))
    updates, state = optimizer.update(clipped, state, params)
    return optax.apply_updates(params, updates), state, value


keys = jax.random.split(jax.random.key(0), 3)
params = {
    "encoder": jax.random.normal(keys[0], (6, 4)),
    "bias": jnp.zeros(4),
    "decoder": jax.random.normal(keys[1], (4, 6)),
}
state = optimizer.init(params)
batch = jax.random.normal(keys[2], (8, 6))
max_norm = jnp.float32(0.0)
