"""Compiled, the root of a square hides that the square overflows.

https://github.com/jax-ml/jax/issues/37919
"""

import jax
import jax.numpy as jnp

CALL = "scaled(gradients, step)"


def magnitude(x):
    return jnp.sqrt(jnp.abs(jnp.square(x)))


def scaled(gradients, step):
    def scale(gradient):
        size = magnitude(gradient)
        bounded = size / (1.0 + jnp.mean(size))
        return -step * jnp.sign(gradient) * jnp.minimum(bounded, 1.0), size

    pairs = [scale(gradient) for gradient in gradients]
    total = sum(jnp.sum(update) for update, _ in pairs)
    return total, pairs


gradients = [
    jax.random.normal(jax.random.key(3), (4,)),
    jnp.array([1.0, 3e25, -2.0]),
]
step = jnp.float32(0.1)
