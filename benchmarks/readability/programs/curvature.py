"""Jacobians, hessians and Hessian-vector products of a small network."""

import jax
import jax.numpy as jnp


def network(weights, x):
    hidden = jax.nn.softplus(weights["in"] @ x)
    return weights["out"] @ hidden


def energy(weights, x):
    output = network(weights, x)
    return jnp.log(jnp.sum(jnp.exp(output)))


def hvp(weights, x, direction):
    gradient = jax.grad(energy, argnums=1)
    return jax.jvp(lambda x: gradient(weights, x), (x,), (direction,))[1]


def newton_direction(weights, x):
    gradient = jax.grad(energy, argnums=1)(weights, x)
    hessian = jax.hessian(energy, argnums=1)(weights, x)
    damped = hessian + 0.1 * jnp.eye(x.shape[0])
    return -jnp.linalg.solve(damped, gradient)


def curvature(weights, xs):
    jacobians = jax.vmap(jax.jacfwd(network, argnums=1), in_axes=(None, 0))(weights, xs)
    directions = jax.vmap(newton_direction, in_axes=(None, 0))(weights, xs)
    products = jax.vmap(hvp, in_axes=(None, 0, 0))(weights, xs, directions)
    rows = jax.jacrev(network)(weights, xs[0])
    gram = jnp.einsum("nij,nik->njk", jacobians, jacobians)
    return directions, products, rows["out"], jnp.trace(gram, axis1=1, axis2=2)


def program():
    keys = jax.random.split(jax.random.key(0), 3)
    weights = {
        "in": jax.random.normal(keys[0], (8, 3)),
        "out": jax.random.normal(keys[1], (2, 8)),
    }
    xs = jax.random.normal(keys[2], (4, 3))
    return curvature, (weights, xs)
