"""A training step of a convnet with batch norm, by hand."""

import jax
import jax.numpy as jnp


def conv(params, x):
    return jax.lax.conv_general_dilated(
        x,
        params["kernel"],
        window_strides=(1, 1),
        padding="SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


def batch_norm(params, stats, x):
    mean = jnp.mean(x, axis=(0, 1, 2))
    variance = jnp.var(x, axis=(0, 1, 2))
    normed = (x - mean) * jax.lax.rsqrt(variance + 1e-5)
    stats = {
        "mean": 0.9 * stats["mean"] + 0.1 * mean,
        "var": 0.9 * stats["var"] + 0.1 * variance,
    }
    return normed * params["scale"] + params["bias"], stats


def max_pool(x):
    window = (1, 2, 2, 1)
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")


def convnet(params, stats, x):
    x = conv(params["Conv_0"], x)
    x, stats_0 = batch_norm(params["BatchNorm_0"], stats["BatchNorm_0"], x)
    x = max_pool(jax.nn.relu(x))
    x = conv(params["Conv_1"], x)
    x, stats_1 = batch_norm(params["BatchNorm_1"], stats["BatchNorm_1"], x)
    x = jnp.mean(jax.nn.relu(x), axis=(1, 2))
    logits = x @ params["Dense_0"]["kernel"] + params["Dense_0"]["bias"]
    return logits, {"BatchNorm_0": stats_0, "BatchNorm_1": stats_1}


def loss_fn(params, batch_stats, images, labels):
    logits, batch_stats = convnet(params, batch_stats, images)
    targets = jax.nn.one_hot(labels, 5)
    loss = -jnp.mean(jnp.sum(targets * jax.nn.log_softmax(logits), axis=-1))
    return loss, (batch_stats, logits)


def train_step(params, batch_stats, images, labels):
    grad_fn = jax.value_and_grad(loss_fn, has_aux=True)
    (loss, aux), grads = grad_fn(params, batch_stats, images, labels)
    batch_stats, logits = aux
    params = jax.tree.map(lambda p, g: p - 0.05 * g, params, grads)
    accuracy = jnp.mean(jnp.argmax(logits, axis=-1) == labels)
    return params, batch_stats, loss, accuracy


def program(params, batch_stats, images, labels):
    return train_step, (params, batch_stats, images, labels)
