"""Particles with a Lennard-Jones potential in a periodic box, by velocity Verlet."""

import jax
import jax.numpy as jnp

BOX = 5.0
DT = 0.005


def displacements(positions):
    difference = positions[:, None] - positions[None, :]
    return difference - BOX * jnp.round(difference / BOX)


def energy(positions):
    r = displacements(positions)
    squared = jnp.sum(r**2, axis=-1)
    off_diagonal = ~jnp.eye(positions.shape[0], dtype=bool)
    safe = jnp.where(off_diagonal, squared, 1.0)
    inverse_6 = 1.0 / safe**3
    pairs = jnp.where(off_diagonal, 4.0 * (inverse_6**2 - inverse_6), 0.0)
    return 0.5 * jnp.sum(pairs)


force = jax.grad(lambda positions: -energy(positions))


def step(state, _):
    positions, velocities = state
    velocities = velocities + 0.5 * DT * force(positions)
    positions = jnp.mod(positions + DT * velocities, BOX)
    velocities = velocities + 0.5 * DT * force(positions)
    kinetic = 0.5 * jnp.sum(velocities**2)
    return (positions, velocities), kinetic + energy(positions)


def simulate(positions, velocities):
    state, energies = jax.lax.scan(step, (positions, velocities), length=10)
    positions, velocities = state
    drift = jnp.max(jnp.abs(energies - energies[0]))
    return positions, velocities, drift


def program():
    grid = jnp.stack(jnp.meshgrid(*2 * [jnp.arange(3.0)]), axis=-1).reshape(-1, 2)
    positions = 1.5 * grid + 0.3
    velocities = jax.random.normal(jax.random.key(0), positions.shape)
    return simulate, (positions, velocities)
