"""A deep residual network as a scan over checkpointed layers, with its gradient."""

import functools

import jax
import jax.numpy as jnp

save_dots = jax.checkpoint_policies.dots_with_no_batch_dims_saveable


def rms_norm(x, scale):
    mean_square = jnp.mean(jnp.square(x), axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(mean_square + 1e-6) * scale


@functools.partial(jax.checkpoint, policy=save_dots)
def layer(x, params):
    h = rms_norm(x, params["scale"])
    h = jax.nn.silu(h @ params["up"])
    h = h @ params["down"]
    return x + h, jnp.mean(jnp.abs(h))


def forward(params, x):
    x, activity = jax.lax.scan(layer, x, params["layers"])
    return x @ params["head"], activity


def loss_fn(params, x, y):
    logits, activity = forward(params, x)
    log_probs = jax.nn.log_softmax(logits)
    nll = -jnp.take_along_axis(log_probs, y[:, None], axis=1)
    return jnp.mean(nll) + 1e-3 * jnp.sum(activity)


def train_step(params, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads)))
    scale = jnp.minimum(1.0, 1.0 / norm)
    params = jax.tree.map(lambda p, g: p - 0.1 * scale * g, params, grads)
    return params, loss


def program():
    keys = jax.random.split(jax.random.key(0), 4)
    layers = {
        "scale": jnp.ones((6, 16)),
        "up": 0.2 * jax.random.normal(keys[0], (6, 16, 32)),
        "down": 0.2 * jax.random.normal(keys[1], (6, 32, 16)),
    }
    params = {"layers": layers, "head": jax.random.normal(keys[2], (16, 3))}
    x = jax.random.normal(keys[3], (4, 16))
    y = jnp.array([0, 2, 1, 2])
    return train_step, (params, x, y)
