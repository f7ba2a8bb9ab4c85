"""The marginal likelihood of a Gaussian process, its gradient, and predictions."""

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl


def kernel(params, a, b):
    scaled = (a[:, None, :] - b[None, :, :]) / jnp.exp(params["log_length"])
    distance = jnp.sum(scaled**2, axis=-1)
    return jnp.exp(params["log_amplitude"]) * jnp.exp(-0.5 * distance)


def noisy_kernel(params, x):
    noise = jnp.exp(params["log_noise"]) + 1e-5
    return kernel(params, x, x) + noise * jnp.eye(x.shape[0])


def negative_log_likelihood(params, x, y):
    chol = jnp.linalg.cholesky(noisy_kernel(params, x))
    alpha = jsl.cho_solve((chol, True), y)
    fit = 0.5 * jnp.dot(y, alpha)
    complexity = jnp.sum(jnp.log(jnp.diag(chol)))
    constant = 0.5 * x.shape[0] * jnp.log(2.0 * jnp.pi)
    return fit + complexity + constant


def predict(params, x, y, new_x):
    chol = jnp.linalg.cholesky(noisy_kernel(params, x))
    cross = kernel(params, new_x, x)
    mean = cross @ jsl.cho_solve((chol, True), y)
    half = jsl.solve_triangular(chol, cross.T, lower=True)
    variance = jnp.diag(kernel(params, new_x, new_x)) - jnp.sum(half**2, axis=0)
    return mean, variance


def fit_and_predict(params, x, y, new_x):
    loss, grads = jax.value_and_grad(negative_log_likelihood)(params, x, y)
    params = jax.tree.map(lambda p, g: p - 0.01 * g, params, grads)
    mean, variance = predict(params, x, y, new_x)
    return params, loss, mean, variance


def program():
    x = jnp.linspace(-2.0, 2.0, 12).reshape(6, 2)
    y = jnp.sin(x[:, 0]) + 0.1
    new_x = jnp.linspace(-1.0, 1.0, 8).reshape(4, 2)
    params = {
        "log_length": jnp.zeros(2),
        "log_amplitude": jnp.array(0.1),
        "log_noise": jnp.array(-2.0),
    }
    return fit_and_predict, (params, x, y, new_x)
