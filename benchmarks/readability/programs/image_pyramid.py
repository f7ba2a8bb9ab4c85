"""Images: resizing, edges by convolution, pooling, and a loss over a pyramid."""

import jax
import jax.numpy as jnp


def to_grey(images):
    weights = jnp.array([0.299, 0.587, 0.114])
    return images @ weights


def edges(grey):
    sobel = jnp.array([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]])
    filters = jnp.stack([sobel, sobel.T])[:, None]
    gradients = jax.lax.conv_general_dilated(
        grey[:, None], filters, window_strides=(1, 1), padding="SAME"
    )
    return jnp.sqrt(jnp.sum(gradients**2, axis=1) + 1e-6)


def max_pool(x, size):
    return jax.lax.reduce_window(
        x, -jnp.inf, jax.lax.max, (1, size, size), (1, size, size), "VALID"
    )


def total_variation(grey):
    horizontal = jnp.abs(jnp.diff(grey, axis=2)).mean()
    vertical = jnp.abs(jnp.diff(grey, axis=1)).mean()
    return horizontal + vertical


def pyramid_loss(images, targets):
    loss = 0.0
    for size in (16, 8, 4):
        shape = (images.shape[0], size, size, 3)
        small = jax.image.resize(images, shape, method="bilinear")
        small_target = jax.image.resize(targets, shape, method="bilinear")
        difference = edges(to_grey(small)) - edges(to_grey(small_target))
        loss = loss + jnp.mean(max_pool(jnp.abs(difference), 2))
    flipped = jnp.flip(images, axis=2)
    symmetry = jnp.mean((images - flipped) ** 2)
    return loss + 0.1 * total_variation(to_grey(images)) + 0.01 * symmetry


def improve(images, targets):
    loss, gradient = jax.value_and_grad(pyramid_loss)(images, targets)
    images = jnp.clip(images - 0.5 * gradient, 0.0, 1.0)
    return images, loss


def program():
    keys = jax.random.split(jax.random.key(0))
    images = jax.random.uniform(keys[0], (2, 16, 16, 3))
    targets = jax.random.uniform(keys[1], (2, 16, 16, 3))
    return improve, (images, targets)
