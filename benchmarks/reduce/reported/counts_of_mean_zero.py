"""The gradient of a negative binomial with mean zero is NaN.

https://github.com/pyro-ppl/numpyro/issues/2193
"""

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

CALL = "step(parameters, features, counts)"


def log_likelihood(parameters, features, counts):
    rates = jax.nn.relu(features @ parameters["weights"] + parameters["bias"])
    concentration = jnp.exp(parameters["log_concentration"])
    model = dist.NegativeBinomial2(rates, concentration)
    prior = dist.Normal(0.0, 1.0).log_prob(parameters["weights"]).sum()
    return model.log_prob(counts).sum() + prior


def step(parameters, features, counts):
    gradients = jax.grad(log_likelihood)(parameters, features, counts)
    return jax.tree.map(lambda p, g: p + 0.01 * g, parameters, gradients)


features = jax.random.normal(jax.random.key(9), (6, 3))
counts = jnp.array([0, 1, 0, 2, 0, 0])
parameters = {
    "weights": jnp.array([0.5, -0.3, 0.2]),
    "bias": jnp.float32(0.1),
    "log_concentration": jnp.float32(0.0),
}
