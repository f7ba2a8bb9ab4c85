"""A gradient descent step of an MLP with a layer norm, by hand."""

import jax
import jax.numpy as jnp


def linear(params, x):
    return x @ params["kernel"] + params["bias"]


def layer_norm(params, x):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.var(x, axis=-1, keepdims=True)
    normed = (x - mean) * jax.lax.rsqrt(variance + 1e-6)
    return normed * params["scale"] + params["bias"]


def loss_fn(params, x, y):
    hidden = layer_norm(params["norm"], linear(params["linear_1"], x))
    predictions = linear(params["linear_2"], jax.nn.relu(hidden))
    return jnp.mean((predictions - y) ** 2)


def train_step(params, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return params, loss


def program(params, x, y):
    plain = {
        name: {key: params[name][key].get_value() for key in params[name]}
        for name in params
    }
    return train_step, (plain, x, y)
