"""A pendulum stepped by a symplectic diffrax solver in a scan, fitted to data."""

import diffrax
import jax
import jax.numpy as jnp

DT = 0.05

solver = diffrax.SemiImplicitEuler()


def angular_velocity(t, velocity, params):
    return velocity


def acceleration(t, angle, params):
    restoring = params["gravity"] / params["length"] * jnp.sin(angle)
    return params["drive"] * jnp.cos(t) - restoring


terms = (diffrax.ODETerm(angular_velocity), diffrax.ODETerm(acceleration))


def solve(params, start):
    def advance(state, t):
        state, _, _, _, _ = solver.step(
            terms, t, t + DT, state, params, solver_state=None, made_jump=False
        )
        return state, state

    times = DT * jnp.arange(10)
    _, (angles, _) = jax.lax.scan(advance, start, times)
    return angles


def mismatch(params, start, measured):
    angles = solve(params, start)
    return jnp.mean(jnp.square(angles - measured))


def fit_step(params, start, measured):
    loss, grads = jax.value_and_grad(mismatch)(params, start, measured)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return params, loss


def program():
    params = {
        "gravity": jnp.array(9.0),
        "length": jnp.array(1.2),
        "drive": jnp.array(0.1),
    }
    start = (jnp.array(0.5), jnp.array(0.0))
    measured = 0.5 * jnp.cos(3.0 * DT * jnp.arange(10))
    return fit_step, (params, start, measured)
