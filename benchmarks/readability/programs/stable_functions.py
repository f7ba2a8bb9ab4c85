"""Numerically stable functions with `custom_jvp` rules, and their derivatives."""

import jax
import jax.numpy as jnp


@jax.custom_jvp
def log1pexp(x):
    return jnp.log1p(jnp.exp(x))


@log1pexp.defjvp
def log1pexp_jvp(primals, tangents):
    (x,) = primals
    (x_dot,) = tangents
    value = log1pexp(x)
    return value, (1.0 - 1.0 / (1.0 + jnp.exp(x))) * x_dot


@jax.custom_jvp
def safe_sqrt(x):
    return jnp.sqrt(jnp.maximum(x, 0.0))


@safe_sqrt.defjvp
def safe_sqrt_jvp(primals, tangents):
    (x,), (x_dot,) = primals, tangents
    root = safe_sqrt(x)
    slope = jnp.where(x > 0.0, 0.5 / jnp.where(x > 0.0, root, 1.0), 0.0)
    return root, slope * x_dot


@jax.custom_jvp
def scaled_product(x, y):
    return x * y


scaled_product.defjvps(
    lambda x_dot, value, x, y: x_dot * y, lambda y_dot, value, x, y: x * y_dot
)


def distance(a, b):
    squared = jnp.sum((a - b) ** 2)
    return safe_sqrt(squared)


def objective(weights, x):
    activations = log1pexp(weights @ x)
    spread = distance(activations, jnp.mean(activations) * jnp.ones_like(activations))
    return scaled_product(spread, jnp.sum(activations))


def derivatives(weights, x):
    value, grads = jax.value_and_grad(objective)(weights, x)
    second = jax.grad(lambda t: jax.grad(log1pexp)(t))(x[0])
    return value, grads, second


def program():
    weights = jax.random.normal(jax.random.key(0), (6, 4))
    return derivatives, (weights, jnp.array([0.5, -1.0, 2.0, 0.1]))
