"""The slope of a power of two is finite in 64 bits, and its gradient is infinite.

https://github.com/jax-ml/jax/issues/40382
"""

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

CALL = "slopes(exponents, scale)"


def response(exponents, scale):
    damped = jnp.tanh(exponents * 1e-3) * scale
    return jnp.sum(jnp.exp2(exponents)) + damped.sum()


def slopes(exponents, scale):
    slope = jax.grad(response)(exponents, scale)
    return slope * 1e-10, jnp.log1p(scale) * exponents


exponents = np.array([1.5, 10.0, 1024.0000000000002])
scale = np.linspace(0.1, 0.3, 3)
