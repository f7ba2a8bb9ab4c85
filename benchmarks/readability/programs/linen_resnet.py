"""A training step of a flax linen residual network with batch norm."""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp


class ResidualBlock(nn.Module):
    """Two convolutions and a shortcut, which is projected if the shape changes."""

    filters: int
    stride: int = 1

    @nn.compact
    def __call__(self, x, train):
        norm = partial(nn.BatchNorm, use_running_average=not train, momentum=0.9)
        conv = partial(nn.Conv, self.filters, use_bias=False)
        y = conv(kernel_size=(3, 3), strides=self.stride)(x)
        y = nn.relu(norm()(y))
        y = conv(kernel_size=(3, 3))(y)
        y = norm()(y)
        if x.shape != y.shape:
            x = conv(kernel_size=(1, 1), strides=self.stride, name="project")(x)
            x = norm(name="project_norm")(x)
        return nn.relu(x + y)


class ResNet(nn.Module):
    """A stem, three blocks and a linear head."""

    classes: int = 5

    @nn.compact
    def __call__(self, images, train=True):
        x = nn.Conv(8, (3, 3), use_bias=False, name="stem")(images)
        x = ResidualBlock(8)(x, train)
        x = ResidualBlock(16, stride=2)(x, train)
        x = ResidualBlock(16)(x, train)
        x = jnp.mean(x, axis=(1, 2))
        return nn.Dense(self.classes, name="head")(x)


model = ResNet()


def loss_fn(params, batch_stats, images, labels):
    variables = {"params": params, "batch_stats": batch_stats}
    logits, updated = model.apply(variables, images, mutable=["batch_stats"])
    log_probs = nn.log_softmax(logits)
    loss = -jnp.mean(jnp.take_along_axis(log_probs, labels[:, None], axis=-1))
    return loss, updated["batch_stats"]


def train_step(params, batch_stats, images, labels):
    grad_fn = jax.value_and_grad(loss_fn, has_aux=True)
    (loss, batch_stats), grads = grad_fn(params, batch_stats, images, labels)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return params, batch_stats, loss


def program():
    images = jax.random.normal(jax.random.key(0), (2, 8, 8, 3))
    labels = jnp.array([1, 3])
    variables = model.init(jax.random.key(1), images)
    return train_step, (variables["params"], variables["batch_stats"], images, labels)
