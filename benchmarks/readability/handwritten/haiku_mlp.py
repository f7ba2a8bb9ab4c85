"""The loss of an MLP with dropout and weight decay, by hand."""

import jax
import jax.numpy as jnp


def linear(params, x):
    return x @ params["w"] + params["b"]


def dropout(key, x):
    kept = jax.random.bernoulli(key, 0.8, x.shape)
    return kept * x / 0.8


def forward(params, key, images):
    x = images.reshape(images.shape[0], -1)
    key, dropout_key = jax.random.split(key)
    x = dropout(dropout_key, jax.nn.relu(linear(params["linear"], x)))
    _, dropout_key = jax.random.split(key)
    x = dropout(dropout_key, jax.nn.relu(linear(params["linear_1"], x)))
    return linear(params["linear_2"], x)


def loss_fn(params, key, images, labels):
    logits = forward(params, key, images)
    targets = jax.nn.one_hot(labels, 10)
    cross_entropy = -jnp.sum(targets * jax.nn.log_softmax(logits), axis=-1)
    penalty = sum(jnp.sum(jnp.square(p)) for p in jax.tree.leaves(params))
    return jnp.mean(cross_entropy) + 1e-4 * penalty


def program(params, key, images, labels):
    return loss_fn, (params, key, images, labels)
