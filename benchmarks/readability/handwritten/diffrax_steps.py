"""A pendulum by symplectic Euler steps in a scan, fitted to data, by hand."""

import jax
import jax.numpy as jnp

DT = 0.05


def solve(params, start):
    def advance(state, t):
        angle, velocity = state
        angle = angle + DT * velocity
        restoring = params["gravity"] / params["length"] * jnp.sin(angle)
        acceleration = params["drive"] * jnp.cos(t) - restoring
        velocity = velocity + DT * acceleration
        return (angle, velocity), angle

    times = DT * jnp.arange(10)
    _, angles = jax.lax.scan(advance, start, times)
    return angles


def mismatch(params, start, measured):
    angles = solve(params, start)
    return jnp.mean(jnp.square(angles - measured))


def fit_step(params, start, measured):
    loss, grads = jax.value_and_grad(mismatch)(params, start, measured)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return params, loss


def program(params, start, measured):
    return fit_step, (params, start, measured)
