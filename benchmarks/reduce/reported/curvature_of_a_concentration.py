"""The trigamma function of infinity is NaN.

https://github.com/jax-ml/jax/issues/38608
"""

import jax
import jax.numpy as jnp
from jax.scipy.special import digamma, polygamma

CALL = "newton_step(log_concentration, statistics)"


def newton_step(log_concentration, statistics):
    concentration = jnp.exp(log_concentration)
    total = jnp.sum(concentration, axis=-1, keepdims=True)
    slope = digamma(total) - digamma(concentration) + statistics
    curvature = polygamma(1, concentration)
    step = jax.nn.soft_sign(slope) / (1.0 + curvature)
    return log_concentration + 0.1 * step, jnp.sum(curvature, axis=-1)


log_concentration = jnp.array([[0.1, 0.5, -0.3], [1.0, 89.5, 0.2]])
statistics = jnp.log(jnp.array([[0.2, 0.5, 0.3], [0.1, 0.8, 0.1]]))
