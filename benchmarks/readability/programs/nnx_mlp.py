"""A gradient descent step of a flax nnx MLP with dropout off."""

import jax
import jax.numpy as jnp
from flax import nnx


class MLP(nnx.Module):
    """Two layers with a norm between."""

    def __init__(self, n_in, hidden, n_out, rngs):
        self.linear_1 = nnx.Linear(n_in, hidden, rngs=rngs)
        self.norm = nnx.LayerNorm(hidden, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, deterministic=True)
        self.linear_2 = nnx.Linear(hidden, n_out, rngs=rngs)

    def __call__(self, x):
        x = nnx.relu(self.norm(self.linear_1(x)))
        x = self.dropout(x)
        return self.linear_2(x)


def program():
    graph, params = nnx.split(MLP(8, 16, 2, nnx.Rngs(0)))

    def loss_fn(params, x, y):
        model = nnx.merge(graph, params)
        predictions = model(x)
        return jnp.mean((predictions - y) ** 2)

    def train_step(params, x, y):
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
        return params, loss

    x = jax.random.normal(jax.random.key(1), (4, 8))
    y = jax.random.normal(jax.random.key(2), (4, 2))
    return train_step, (params, x, y)
