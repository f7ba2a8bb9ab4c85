"""In sixteen bits the epsilon of Adam is zero, so that a zero gradient gives NaN.

https://github.com/google-deepmind/optax/issues/1754
"""

import jax
import jax.numpy as jnp
import optax

CALL = "step(params, state, batch)"

optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))


def loss(params, batch):
    hidden = jax.nn.relu(batch["x"] @ params["w1"] + params["b1"])
    logits = hidden @ params["w2"]
    labels = jax.nn.one_hot(batch["y"], 3, dtype=logits.dtype)
    return optax.softmax_cross_entropy(logits, labels).mean()


def step(params, state, batch):
    value, gradients = jax.value_and_grad(loss)(params, batch)
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, value


keys = jax.random.split(jax.random.key(0), 3)
params = {
    "w1": jax.random.normal(keys[0], (4, 6), jnp.float16),
    "b1": jnp.array([0.0, 0.1, 0.2, -50.0, 0.0, 0.1], jnp.float16),
    "w2": jax.random.normal(keys[1], (6, 3), jnp.float16),
}
batch = {
    "x": jax.random.normal(keys[2], (5, 4), jnp.float16),
    "y": jnp.array([0, 1, 2, 1, 0]),
}
state = optimizer.init(params)
