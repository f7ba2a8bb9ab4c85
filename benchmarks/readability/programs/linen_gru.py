"""A flax linen GRU over time by `nn.scan`: the loss of predicting the next value."""

import flax.linen as nn
import jax
import jax.numpy as jnp


class Forecaster(nn.Module):
    """A GRU over time with a linear read-out."""

    hidden: int = 16

    @nn.compact
    def __call__(self, series):
        scan = nn.scan(
            nn.GRUCell,
            variable_broadcast="params",
            split_rngs={"params": False},
            in_axes=1,
            out_axes=1,
        )
        carry = jnp.zeros((series.shape[0], self.hidden))
        carry, hidden = scan(self.hidden, name="gru")(carry, series)
        return nn.Dense(1)(hidden)[..., 0]


model = Forecaster()


def loss_fn(params, series):
    predictions = model.apply(params, series[:, :-1, None])
    errors = predictions - series[:, 1:]
    return jnp.mean(jnp.abs(errors))


def program():
    series = jnp.sin(jnp.linspace(0.0, 12.0, 40)).reshape(4, 10)
    params = model.init(jax.random.key(0), series[:, :-1, None])
    return jax.value_and_grad(loss_fn), (params, series)
