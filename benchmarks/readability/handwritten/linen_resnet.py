"""A training step of a residual network with batch norm, by hand."""

import jax
import jax.numpy as jnp


def conv(params, x, stride=1):
    return jax.lax.conv_general_dilated(
        x,
        params["kernel"],
        (stride, stride),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )


def batch_norm(params, stats, x):
    mean = jnp.mean(x, axis=(0, 1, 2))
    var = jnp.var(x, axis=(0, 1, 2))
    stats = {
        "mean": 0.9 * stats["mean"] + 0.1 * mean,
        "var": 0.9 * stats["var"] + 0.1 * var,
    }
    normed = (x - mean) * jax.lax.rsqrt(var + 1e-5)
    return normed * params["scale"] + params["bias"], stats


def residual_block(params, stats, x, stride=1):
    new = {}

    def norm(name, y):
        y, new[name] = batch_norm(params[name], stats[name], y)
        return y

    y = conv(params["Conv_0"], x, stride)
    y = jax.nn.relu(norm("BatchNorm_0", y))
    y = norm("BatchNorm_1", conv(params["Conv_1"], y))
    if x.shape != y.shape:
        x = norm("project_norm", conv(params["project"], x, stride))
    return jax.nn.relu(x + y), new


def resnet(params, stats, images):
    new = {}
    x = conv(params["stem"], images)
    for i, stride in enumerate((1, 2, 1)):
        name = f"ResidualBlock_{i}"
        x, new[name] = residual_block(params[name], stats[name], x, stride)
    x = jnp.mean(x, axis=(1, 2))
    return x @ params["head"]["kernel"] + params["head"]["bias"], new


def loss_fn(params, batch_stats, images, labels):
    logits, batch_stats = resnet(params, batch_stats, images)
    log_probs = jax.nn.log_softmax(logits)
    loss = -jnp.mean(jnp.take_along_axis(log_probs, labels[:, None], axis=-1))
    return loss, batch_stats


def train_step(params, batch_stats, images, labels):
    grad_fn = jax.value_and_grad(loss_fn, has_aux=True)
    (loss, batch_stats), grads = grad_fn(params, batch_stats, images, labels)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return params, batch_stats, loss


def program(params, batch_stats, images, labels):
    return train_step, (params, batch_stats, images, labels)
