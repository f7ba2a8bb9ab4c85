"""The logarithm of the beta function is NaN at negative integers.

https://github.com/jax-ml/jax/issues/38243
"""

import jax
import jax.numpy as jnp
from jax.scipy.special import betaln, logsumexp

CALL = "log_evidence(counts, shifts, temperature)"


def log_binomial(n, k):
    return -betaln(n - k + 1.0, k + 1.0) - jnp.log1p(n)


def log_evidence(counts, shifts, temperature):
    totals = jnp.sum(counts, axis=-1)
    terms = jax.vmap(log_binomial)(totals - shifts, counts[:, 0])
    weights = jax.nn.log_softmax(terms / temperature)
    entropy = -jnp.sum(jnp.exp(weights) * weights)
    return logsumexp(terms + weights) + 0.1 * entropy


counts = jnp.array([[1.0, 3.0], [2.0, 2.0], [2.0, 1.0]])
shifts = jnp.array([0.0, 1.0, 5.0])
temperature = jnp.float32(2.0)
