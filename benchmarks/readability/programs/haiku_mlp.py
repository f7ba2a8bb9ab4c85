"""A haiku MLP with dropout in training: random keys drawn by the framework."""

import haiku as hk
import jax
import jax.numpy as jnp


def forward(images, training):
    x = hk.Flatten()(images)
    x = jax.nn.relu(hk.Linear(32)(x))
    if training:
        x = hk.dropout(hk.next_rng_key(), 0.2, x)
    x = jax.nn.relu(hk.Linear(16)(x))
    if training:
        x = hk.dropout(hk.next_rng_key(), 0.2, x)
    return hk.Linear(10)(x)


model = hk.transform(forward)


def loss_fn(params, key, images, labels):
    logits = model.apply(params, key, images, True)
    targets = jax.nn.one_hot(labels, 10)
    cross_entropy = -jnp.sum(targets * jax.nn.log_softmax(logits), axis=-1)
    penalty = sum(jnp.sum(jnp.square(p)) for p in jax.tree.leaves(params))
    return jnp.mean(cross_entropy) + 1e-4 * penalty


def program():
    images = jax.random.uniform(jax.random.key(0), (4, 6, 6))
    labels = jnp.array([7, 2, 1, 0])
    params = model.init(jax.random.key(1), images, True)
    return loss_fn, (params, jax.random.key(2), images, labels)
