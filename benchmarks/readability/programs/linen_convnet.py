"""A training step of a flax linen convnet with batch norm, by plain SGD."""

import flax.linen as nn
import jax
import jax.numpy as jnp


class ConvNet(nn.Module):
    """Two convolutions with batch norm, pooling and a classifier."""

    classes: int = 5

    @nn.compact
    def __call__(self, images, train):
        x = nn.Conv(8, kernel_size=(3, 3), use_bias=False)(images)
        x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)
        x = nn.relu(x)
        x = nn.max_pool(x, (2, 2), strides=(2, 2))
        x = nn.Conv(16, kernel_size=(3, 3), use_bias=False)(x)
        x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)
        x = nn.relu(x)
        x = jnp.mean(x, axis=(1, 2))
        return nn.Dense(self.classes)(x)


model = ConvNet()


def loss_fn(params, batch_stats, images, labels):
    variables = {"params": params, "batch_stats": batch_stats}
    logits, updated = model.apply(variables, images, train=True, mutable="batch_stats")
    log_probs = nn.log_softmax(logits)
    targets = jax.nn.one_hot(labels, 5)
    loss = -jnp.mean(jnp.sum(targets * log_probs, axis=-1))
    return loss, (updated["batch_stats"], logits)


def train_step(params, batch_stats, images, labels):
    grad_fn = jax.value_and_grad(loss_fn, has_aux=True)
    (loss, aux), grads = grad_fn(params, batch_stats, images, labels)
    batch_stats, logits = aux
    params = jax.tree.map(lambda p, g: p - 0.05 * g, params, grads)
    accuracy = jnp.mean(jnp.argmax(logits, axis=-1) == labels)
    return params, batch_stats, loss, accuracy


def program():
    images = jax.random.normal(jax.random.key(0), (4, 8, 8, 3))
    labels = jnp.array([0, 3, 1, 4])
    variables = model.init(jax.random.key(1), images, train=True)
    args = (variables["params"], variables["batch_stats"], images, labels)
    return train_step, args
