"""The potential energy of a hierarchical numpyro regression, with its gradient."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer.util import log_density


def model(x, group, y=None):
    mean = numpyro.sample("mean", dist.Normal(0.0, 5.0))
    spread = numpyro.sample("spread", dist.HalfNormal(2.0))
    with numpyro.plate("groups", 3):
        offset = numpyro.sample("offset", dist.Normal(mean, spread))
    slope = numpyro.sample("slope", dist.Normal(jnp.zeros(2), 1.0).to_event(1))
    noise = numpyro.sample("noise", dist.Exponential(1.0))
    prediction = offset[group] + x @ slope
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.StudentT(4.0, prediction, noise), obs=y)


def potential(sites, x, group, y):
    log_joint, _ = log_density(model, (x, group), {"y": y}, sites)
    return -log_joint


def potential_and_grad(sites, x, group, y):
    return jax.value_and_grad(potential)(sites, x, group, y)


def program():
    x = jax.random.normal(jax.random.key(0), (6, 2))
    group = jnp.array([0, 0, 1, 1, 2, 2])
    y = jnp.array([0.3, -1.0, 2.0, 1.5, 0.1, -0.4])
    sites = {
        "mean": jnp.array(0.2),
        "spread": jnp.array(1.1),
        "offset": jnp.array([0.1, -0.2, 0.4]),
        "slope": jnp.array([0.5, -0.5]),
        "noise": jnp.array(0.7),
    }
    return potential_and_grad, (sites, x, group, y)
