"""In sixteen bits the epsilon of RMSProp is zero, so that a zero gradient gives NaN.

https://github.com/google-deepmind/optax/issues/1784
"""

import jax
import jax.numpy as jnp
import optax

CALL = "train(table, words)"

optimizer = optax.rmsprop(1e-2, decay=0.9, momentum=0.9)


def loss(table, words):
    vectors = table[words]
    similarity = vectors @ vectors.T
    return jnp.mean((similarity - jnp.eye(words.size, dtype=table.dtype)) ** 2)


def train(table, words):
    def body(carry, _):
        table, state = carry
        value, gradient = jax.value_and_grad(loss)(table, words)
        updates, state = optimizer.update(gradient, state, table)
        return (optax.apply_updates(table, updates), state), value

    start = (table, optimizer.init(table))
    (table, _), values = jax.lax.scan(body, start, length=3)
    return table, values


table = 0.1 * jax.random.normal(jax.random.key(0), (8, 4), jnp.float16)
words = jnp.array([0, 2, 5])
