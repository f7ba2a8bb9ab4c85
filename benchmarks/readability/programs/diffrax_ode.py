"""A Lotka-Volterra system solved by diffrax with fixed steps, against a measurement."""

import diffrax
import jax.numpy as jnp


def vector_field(t, state, args):
    prey, predators = state
    birth, hunting, growth, death = args
    d_prey = birth * prey - hunting * prey * predators
    d_predators = growth * prey * predators - death * predators
    return d_prey, d_predators


def solve(args, start):
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(vector_field),
        diffrax.Euler(),
        t0=0.0,
        t1=1.0,
        dt0=0.1,
        y0=start,
        args=args,
        max_steps=16,
        throw=False,
    )
    return solution.ys


def mismatch(args, start, measured):
    prey, predators = solve(args, start)
    return jnp.mean((prey - measured[0]) ** 2 + (predators - measured[1]) ** 2)


def program():
    args = tuple(jnp.array([1.1, 0.4, 0.1, 0.4]))
    start = (jnp.array(10.0), jnp.array(5.0))
    return mismatch, (args, start, jnp.array([9.0, 5.5]))
