"""A small loss, whose gradient is opened."""

import jax
import jax.numpy as jnp


def loss(params, x):
    h = jnp.sin(x @ params["w"] + params["b"])
    return jnp.mean(h**2)


gradient = jax.grad(loss)


params = {"b": jnp.zeros(4), "w": jnp.ones((3, 4))}
x = jnp.ones((5, 3))
