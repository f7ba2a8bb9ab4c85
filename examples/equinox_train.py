"""A training step of an equinox model with optax.

untrace show examples/equinox_train.py 'train_step(model, opt_state, x, y)'
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

model = eqx.nn.MLP(in_size=4, out_size=1, width_size=16, depth=2, key=jax.random.key(0))
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(1e-2, momentum=0.9))
opt_state = optimizer.init(eqx.filter(model, eqx.is_array))


@eqx.filter_value_and_grad
def loss_fn(model, x, y):
    """Return the mean squared error."""
    predictions = jax.vmap(model)(x)
    return jnp.mean((predictions - y) ** 2)


def train_step(model, opt_state, x, y):
    """Take one step of gradient descent with clipping and momentum."""
    loss, grads = loss_fn(model, x, y)
    updates, opt_state = optimizer.update(grads, opt_state)
    return eqx.apply_updates(model, updates), opt_state, loss


x = jax.random.normal(jax.random.key(1), (32, 4))
y = jnp.sum(x, axis=1, keepdims=True)
