"""A Lotka-Volterra system by Euler steps, against a measurement, by hand."""

import jax
import jax.numpy as jnp

DT = 0.1


def vector_field(state, args):
    prey, predators = state
    birth, hunting, growth, death = args
    d_prey = birth * prey - hunting * prey * predators
    d_predators = growth * prey * predators - death * predators
    return d_prey, d_predators


def solve(args, start):
    def step(_, state):
        d_state = vector_field(state, args)
        return jax.tree.map(lambda y, d: y + DT * d, state, d_state)

    return jax.lax.fori_loop(0, 10, step, start)


def mismatch(args, start, measured):
    prey, predators = solve(args, start)
    return jnp.mean((prey - measured[0]) ** 2 + (predators - measured[1]) ** 2)


def program(args, start, measured):
    return mismatch, (args, start, measured)
