"""The potential energy of a hierarchical regression with its gradient, by hand."""

import jax
import jax.numpy as jnp
from jax.scipy.stats import expon, norm, t


def log_density(sites, x, group, y):
    spread, noise = sites["spread"], sites["noise"]
    log_prior = (
        norm.logpdf(sites["mean"], 0.0, 5.0)
        + jnp.where(spread > 0.0, norm.logpdf(spread, 0.0, 2.0), -jnp.inf)
        + jnp.log(2.0)
        + jnp.sum(norm.logpdf(sites["offset"], sites["mean"], spread))
        + jnp.sum(norm.logpdf(sites["slope"]))
        + expon.logpdf(noise)
    )
    prediction = sites["offset"][group] + x @ sites["slope"]
    return log_prior + jnp.sum(t.logpdf(y, 4.0, prediction, noise))


def potential(sites, x, group, y):
    return -log_density(sites, x, group, y)


def potential_and_grad(sites, x, group, y):
    return jax.value_and_grad(potential)(sites, x, group, y)


def program(sites, x, group, y):
    return potential_and_grad, (sites, x, group, y)
