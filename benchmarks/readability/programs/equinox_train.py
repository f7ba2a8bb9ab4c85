"""A training step of an equinox network: `eqx.filter_jit`, optax."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax


class Network(eqx.Module):
    """A layer norm and layers with functions between them."""

    norm: eqx.nn.LayerNorm
    layers: list

    def __init__(self, key):
        first, second = jax.random.split(key)
        self.norm = eqx.nn.LayerNorm(4)
        self.layers = [
            eqx.nn.Linear(4, 16, key=first),
            jax.nn.relu,
            eqx.nn.Linear(16, 3, key=second),
            jax.nn.log_softmax,
        ]

    def __call__(self, x):
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x)
        return x


def loss_fn(model, x, y):
    log_probs = jax.vmap(model)(x)
    return -jnp.mean(jnp.take_along_axis(log_probs, y[:, None], axis=1))


optimizer = optax.adam(1e-3)


@eqx.filter_jit
def make_step(model, opt_state, x, y):
    loss, grads = eqx.filter_value_and_grad(loss_fn)(model, x, y)
    updates, opt_state = optimizer.update(grads, opt_state)
    model = eqx.apply_updates(model, updates)
    return model, opt_state, loss


def program():
    model = Network(jax.random.key(0))
    opt_state = optimizer.init(eqx.filter(model, eqx.is_array))
    x = jax.random.normal(jax.random.key(1), (5, 4))
    return make_step, (model, opt_state, x, jnp.array([0, 2, 1, 2, 0]))
