"""One Hamiltonian Monte Carlo transition, vmapped over chains."""

import jax
import jax.numpy as jnp

STEP_SIZE = 0.1
N_LEAPFROG = 5


def log_density(position):
    x, y = position
    return -0.5 * (x**2 + 10.0 * (y - x**2) ** 2)


def leapfrog(position, momentum):
    def step(_, state):
        position, momentum = state
        momentum = momentum + 0.5 * STEP_SIZE * jax.grad(log_density)(position)
        position = position + STEP_SIZE * momentum
        momentum = momentum + 0.5 * STEP_SIZE * jax.grad(log_density)(position)
        return position, momentum

    return jax.lax.fori_loop(0, N_LEAPFROG, step, (position, momentum))


def hamiltonian(position, momentum):
    return 0.5 * jnp.sum(momentum**2) - log_density(position)


def transition(position, key):
    momentum_key, accept_key = jax.random.split(key)
    momentum = jax.random.normal(momentum_key, position.shape)
    proposal, final_momentum = leapfrog(position, momentum)
    before = hamiltonian(position, momentum)
    after = hamiltonian(proposal, final_momentum)
    log_accept = jnp.minimum(0.0, before - after)
    accepted = jnp.log(jax.random.uniform(accept_key)) < log_accept
    position = jnp.where(accepted, proposal, position)
    return position, (position, jnp.exp(log_accept))


def sample_chain(position, key):
    keys = jax.random.split(key, 4)
    _, (samples, acceptance) = jax.lax.scan(transition, position, keys)
    return samples, jnp.mean(acceptance)


def sample(key, positions):
    keys = jax.random.split(key, positions.shape[0])
    return jax.vmap(sample_chain)(positions, keys)


def program():
    return sample, (jax.random.key(0), 0.1 * jnp.ones((3, 2)))
