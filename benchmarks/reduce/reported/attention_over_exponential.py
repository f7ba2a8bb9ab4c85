"""Attention over a matrix exponential is NaN when compiled, and finite op by op.

https://github.com/jax-ml/jax/issues/38609
"""

import jax
import jax.numpy as jnp
from jax.scipy.linalg import expm

CALL = "attend(times, keys, values)"


def attend(times, keys, values):
    growth = jnp.expm1(jnp.clip(times, -4, 4))
    angles = jnp.arctan2(times, times)
    rates = jnp.outer(growth, angles)
    queries = expm((rates @ rates) * 0.1)
    scores = (queries @ keys.T) * queries.shape[-1] ** -0.5
    return jax.nn.softmax(scores, axis=-1) @ values


key, first = jax.random.split(jax.random.PRNGKey(344146))
key, second = jax.random.split(key)
key, third = jax.random.split(key)
times = jax.random.normal(first, (5,))
keys = jax.random.normal(second, (5, 5))
values = jax.random.normal(third, (5, 5))
