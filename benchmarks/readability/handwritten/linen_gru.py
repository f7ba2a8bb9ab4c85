"""A GRU that forecasts the next value, by hand."""

import jax
import jax.numpy as jnp


def dense(params, x):
    return x @ params["kernel"] + params["bias"]


def gru_cell(params, hidden, x):
    reset = dense(params["ir"], x) + hidden @ params["hr"]["kernel"]
    update = dense(params["iz"], x) + hidden @ params["hz"]["kernel"]
    reset, update = jax.nn.sigmoid(reset), jax.nn.sigmoid(update)
    new = jnp.tanh(dense(params["in"], x) + reset * dense(params["hn"], hidden))
    return (1.0 - update) * new + update * hidden


def forecast(params, series):
    def step(hidden, x):
        hidden = gru_cell(params["gru"], hidden, x)
        return hidden, hidden

    start = jnp.zeros((series.shape[0], 16))
    _, hidden = jax.lax.scan(step, start, series.swapaxes(0, 1))
    return dense(params["Dense_0"], hidden)[..., 0].T


def loss_fn(params, series):
    predictions = forecast(params["params"], series[:, :-1, None])
    return jnp.mean(jnp.abs(predictions - series[:, 1:]))


def loss_and_grad(params, series):
    return jax.value_and_grad(loss_fn)(params, series)


def program(params, series):
    return loss_and_grad, (params, series)
