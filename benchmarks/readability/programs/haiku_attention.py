"""A haiku network with attention and layer norm, and the gradient of its loss."""

import haiku as hk
import jax
import jax.numpy as jnp


def network(x):
    init = hk.initializers.VarianceScaling(1.0)
    attention = hk.MultiHeadAttention(num_heads=2, key_size=8, w_init=init)
    norm = hk.LayerNorm(axis=-1, create_scale=True, create_offset=True)
    h = norm(x + attention(x, x, x))
    mlp = hk.nets.MLP([32, 16], activation=jax.nn.silu)
    h = h + mlp(h)
    return hk.Linear(1, name="value")(jnp.max(h, axis=1))


model = hk.without_apply_rng(hk.transform(network))


def loss_fn(params, x, y):
    predictions = model.apply(params, x)
    residual = predictions[:, 0] - y
    return 0.5 * jnp.mean(residual**2)


def loss_and_grad(params, x, y):
    return jax.value_and_grad(loss_fn)(params, x, y)


def program():
    x = jax.random.normal(jax.random.key(0), (4, 6, 16))
    y = jnp.array([1.0, -1.0, 0.5, 2.0])
    params = model.init(jax.random.key(1), x)
    return loss_and_grad, (params, x, y)
