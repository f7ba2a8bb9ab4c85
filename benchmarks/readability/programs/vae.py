"""A variational autoencoder in plain JAX: the evidence bound and its gradient."""

import jax
import jax.numpy as jnp


def dense(params, x):
    w, b = params
    return jnp.dot(x, w) + b


def encode(params, x):
    hidden = jax.nn.elu(dense(params["hidden"], x))
    mean = dense(params["mean"], hidden)
    log_variance = dense(params["log_variance"], hidden)
    return mean, log_variance


def decode(params, z):
    hidden = jax.nn.elu(dense(params["hidden"], z))
    return dense(params["out"], hidden)


def kl_divergence(mean, log_variance):
    terms = jnp.exp(log_variance) + mean**2 - 1.0 - log_variance
    return 0.5 * jnp.sum(terms, axis=-1)


def bernoulli_log_prob(logits, x):
    return jnp.sum(x * logits - jax.nn.softplus(logits), axis=-1)


def negative_elbo(params, key, x):
    mean, log_variance = encode(params["encoder"], x)
    noise = jax.random.normal(key, mean.shape)
    z = mean + jnp.exp(0.5 * log_variance) * noise
    logits = decode(params["decoder"], z)
    elbo = bernoulli_log_prob(logits, x) - kl_divergence(mean, log_variance)
    return -jnp.mean(elbo)


def train_step(params, key, x):
    key, noise_key = jax.random.split(key)
    loss, grads = jax.value_and_grad(negative_elbo)(params, noise_key, x)
    params = jax.tree.map(lambda p, g: p - 1e-2 * g, params, grads)
    return params, key, loss


def init_dense(key, n_in, n_out):
    return 0.1 * jax.random.normal(key, (n_in, n_out)), jnp.zeros(n_out)


def program():
    keys = jax.random.split(jax.random.key(0), 7)
    params = {
        "encoder": {
            "hidden": init_dense(keys[0], 12, 16),
            "mean": init_dense(keys[1], 16, 3),
            "log_variance": init_dense(keys[2], 16, 3),
        },
        "decoder": {
            "hidden": init_dense(keys[3], 3, 16),
            "out": init_dense(keys[4], 16, 12),
        },
    }
    x = jax.random.bernoulli(keys[5], 0.4, (4, 12)).astype(jnp.float32)
    return train_step, (params, keys[6], x)
