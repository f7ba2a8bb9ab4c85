"""Newton's method stops with an error where the Jacobian is singular at the start.

https://github.com/patrick-kidger/optimistix/issues/204
"""

import jax.numpy as jnp
import optimistix

CALL = "equilibrium(concentrations, constants)"

solver = optimistix.Newton(rtol=1e-6, atol=1e-6)


def residual(y, constants):
    first = (y[0] - constants[0]) ** 2
    second = (y[1] - constants[1]) ** 2
    return jnp.stack([first, second])


def equilibrium(concentrations, constants):
    solution = optimistix.root_find(residual, solver, concentrations, constants)
    activity = jnp.exp(-solution.value / 3.0)
    return solution.value, activity @ constants


concentrations = jnp.array([2.0, 2.0])
constants = jnp.array([1.0, 2.0])
