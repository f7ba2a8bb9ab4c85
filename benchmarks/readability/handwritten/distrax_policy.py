"""A policy gradient with a Gaussian policy and entropy bonus, by hand."""

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm


def policy(params, observations):
    hidden = jax.nn.relu(observations @ params["w1"] + params["b1"])
    return hidden @ params["w2"], jax.nn.softplus(params["scale"])


def loss_fn(params, observations, actions, advantages):
    mean, scale = policy(params, observations)
    log_prob = jnp.sum(norm.logpdf(actions, mean, scale), axis=-1)
    entropy = jnp.sum(0.5 + 0.5 * jnp.log(2.0 * jnp.pi) + jnp.log(scale))
    return -jnp.mean(log_prob * advantages + 0.01 * entropy)


def update(params, key, observations):
    mean, scale = policy(params, observations)
    actions = mean + scale * jax.random.normal(key, mean.shape)
    actions = jax.lax.stop_gradient(actions)
    advantages = -jnp.sum(actions**2, axis=-1)
    loss, grads = jax.value_and_grad(loss_fn)(params, observations, actions, advantages)
    params = jax.tree.map(lambda p, g: p - 0.01 * g, params, grads)
    return params, loss


def program(params, key, observations):
    return update, (params, key, observations)
