"""The gradient through an overflow is NaN op by op, and 1 when compiled.

https://github.com/jax-ml/jax/issues/38097
"""

import jax
import jax.numpy as jnp

CALL = "step(parameters, inputs)"


def potential(parameters, inputs):
    hidden = jnp.tanh(inputs @ parameters["weights"])
    exponents = hidden @ parameters["out"] * parameters["scale"]
    return jnp.sum(jnp.log(jnp.exp(exponents)))


def step(parameters, inputs):
    value, gradients = jax.value_and_grad(potential)(parameters, inputs)
    return value, jax.tree.map(lambda p, g: p - 0.01 * g, parameters, gradients)


parts = jax.random.split(jax.random.key(4), 3)
inputs = jax.random.normal(parts[0], (8, 4))
parameters = {
    "weights": jax.random.normal(parts[1], (4, 6)),
    "out": jnp.abs(jax.random.normal(parts[2], (6,))),
    "scale": jnp.float32(80.0),
}
