"""Cond, switch, while and fori together: an adaptive solver of a linear system."""

import jax
import jax.numpy as jnp

TOLERANCE = 1e-4


def jacobi(matrix, rhs, x):
    diagonal = jnp.diag(matrix)
    off_diagonal = matrix - jnp.diag(diagonal)
    return (rhs - off_diagonal @ x) / diagonal


def gauss_seidel(matrix, rhs, x):
    def row(i, x):
        residual = rhs[i] - matrix[i] @ x
        return x.at[i].add(residual / matrix[i, i])

    return jax.lax.fori_loop(0, rhs.shape[0], row, x)


def richardson(matrix, rhs, x):
    return x + 0.1 * (rhs - matrix @ x)


METHODS = (jacobi, gauss_seidel, richardson)


def solve(method, matrix, rhs):
    def unconverged(state):
        _, residual, n_steps = state
        return (residual > TOLERANCE) & (n_steps < 50)

    def iterate(state):
        x, residual, n_steps = state
        new_x = jax.lax.switch(method, METHODS, matrix, rhs, x)
        new_residual = jnp.linalg.norm(rhs - matrix @ new_x)
        x = jax.lax.cond(
            new_residual < residual,
            lambda old, new: new,
            lambda old, new: 0.5 * (old + new),
            x,
            new_x,
        )
        return x, new_residual, n_steps + 1

    state = (jnp.zeros_like(rhs), jnp.linalg.norm(rhs), 0)
    x, residual, n_steps = jax.lax.while_loop(unconverged, iterate, state)
    return x, residual, n_steps


def program():
    matrix = jnp.eye(5) * 4.0 + jnp.outer(jnp.arange(5.0), jnp.ones(5)) / 10.0
    rhs = jnp.linspace(-1.0, 1.0, 5)
    return solve, (jnp.array(1), matrix, rhs)
