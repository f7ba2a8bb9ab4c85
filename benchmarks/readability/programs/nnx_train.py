"""A training step of a flax nnx classifier: `nnx.jit`, `nnx.value_and_grad`, optax."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class Classifier(nnx.Module):
    """Two layers with a batch norm between them."""

    def __init__(self, rngs):
        self.hidden = nnx.Linear(6, 16, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.out = nnx.Linear(16, 3, rngs=rngs)

    def __call__(self, x):
        x = nnx.relu(self.norm(self.hidden(x)))
        return self.out(x)


def loss_fn(model, x, y):
    logits = model(x)
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, y)
    return losses.mean()


@nnx.jit
def train_step(model, optimizer, x, y):
    loss, grads = nnx.value_and_grad(loss_fn)(model, x, y)
    optimizer.update(model, grads)
    return loss


def program():
    model = Classifier(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
    x = jax.random.normal(jax.random.key(1), (4, 6))
    return train_step, (model, optimizer, x, jnp.array([0, 2, 1, 2]))
