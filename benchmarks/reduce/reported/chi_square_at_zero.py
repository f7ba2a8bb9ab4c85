"""The density of a chi-square prior with two degrees of freedom is NaN at zero.

https://github.com/jax-ml/jax/issues/38316
"""

import jax
import jax.numpy as jnp
from jax.scipy import stats

CALL = "loss_and_gradient(weights, features, targets)"


def log_posterior(weights, features, targets):
    hidden = jnp.tanh(features @ weights["first"] + weights["bias"])
    mean = hidden @ weights["second"]
    scale = jax.nn.softplus(weights["scale"])
    likelihood = stats.norm.logpdf(targets, mean, scale).sum()
    energy = jnp.sum(weights["second"] ** 2, axis=0)
    prior = stats.chi2.logpdf(energy, 2.0).sum()
    prior += stats.norm.logpdf(weights["first"]).sum()
    return likelihood + prior


def loss_and_gradient(weights, features, targets):
    return jax.value_and_grad(log_posterior)(weights, features, targets)


keys = jax.random.split(jax.random.key(0), 3)
features = jax.random.normal(keys[0], (16, 5))
targets = jax.random.normal(keys[1], (16, 3))
weights = {
    "first": 0.3 * jax.random.normal(keys[2], (5, 8)),
    "bias": jnp.zeros(8),
    "second": jnp.zeros((8, 3)),
    "scale": jnp.float32(0.5),
}
