"""A gradient descent step of an MLP, by hand."""

import jax
import jax.numpy as jnp


def mlp(layers, x):
    *hidden, (w, b) = layers
    for w_hidden, b_hidden in hidden:
        x = jax.nn.relu(w_hidden @ x + b_hidden)
    return w @ x + b


def loss_fn(params, x, y):
    predictions = jax.vmap(mlp, in_axes=(None, 0))(params, x)
    return jnp.mean(jnp.square(predictions - y))


def step(params, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    params = jax.tree.map(lambda p, g: p - 0.01 * g, params, grads)
    return params, loss


def program(params, x, y):
    layers = [(layer.weight, layer.bias) for layer in params.layers]
    return step, (layers, x, y)
