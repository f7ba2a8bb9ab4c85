"""The density of a von Mises distribution with the concentration zero is NaN.

https://github.com/jax-ml/jax/issues/38621
"""

import jax
import jax.numpy as jnp
from jax.scipy import stats

CALL = "objective(params, angles)"


def mixture(params, angles):
    weights = jax.nn.softmax(params["logits"])
    sharp = jax.nn.relu(params["sharpness"])
    means = jnp.arctan2(params["sine"], params["cosine"])
    each = stats.vonmises.pdf(angles[:, None] - means, sharp)
    return jnp.log((weights * each).sum(-1))


def objective(params, angles):
    prior = stats.norm.logpdf(params["logits"]).sum()
    return -mixture(params, angles).mean() - 0.1 * prior


params = {
    "logits": jnp.array([0.3, -0.2, 0.1]),
    "sharpness": jnp.array([2.0, -0.5, 4.0]),
    "sine": jnp.array([0.5, 0.1, -0.9]),
    "cosine": jnp.array([0.2, 0.8, -0.4]),
}
angles = jnp.linspace(-3.0, 3.0, 12)
