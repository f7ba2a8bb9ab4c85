"""Spence's function is NaN above 8.5e37: the reciprocal is flushed to zero.

https://github.com/jax-ml/jax/issues/40652
"""

import jax
import jax.numpy as jnp
from jax.scipy.special import spence

CALL = "total_energy(chemical_potentials, temperatures)"


def fermi_integral(reduced):
    return -spence(1.0 + jnp.exp(reduced))


def energy(potential, temperature):
    reduced = potential / temperature
    kinetic = -(temperature**2) * fermi_integral(reduced)
    return kinetic + 0.5 * potential * jnp.log1p(jnp.exp(-jnp.abs(reduced)))


def total_energy(potentials, temperatures):
    energies = jax.vmap(energy)(potentials, temperatures)
    return jnp.sum(energies), energies / temperatures


chemical_potentials = jnp.array([0.5, 2.0, 8.75])
temperatures = jnp.array([1.0, 0.5, 0.1])
