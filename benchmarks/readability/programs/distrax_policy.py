"""A policy gradient with a distrax Gaussian policy and entropy bonus."""

import distrax
import jax
import jax.numpy as jnp


def policy(params, observations):
    hidden = jax.nn.relu(observations @ params["w1"] + params["b1"])
    mean = hidden @ params["w2"]
    scale = jax.nn.softplus(params["scale"])
    return distrax.MultivariateNormalDiag(mean, jnp.broadcast_to(scale, mean.shape))


def loss_fn(params, observations, actions, advantages):
    distribution = policy(params, observations)
    log_prob = distribution.log_prob(actions)
    entropy = distribution.entropy()
    return -jnp.mean(log_prob * advantages + 0.01 * entropy)


def act(params, key, observations):
    distribution = policy(params, observations)
    actions, log_prob = distribution.sample_and_log_prob(seed=key)
    return actions, log_prob


def update(params, key, observations):
    actions, _ = act(params, key, observations)
    actions = jax.lax.stop_gradient(actions)
    advantages = -jnp.sum(actions**2, axis=-1)
    loss, grads = jax.value_and_grad(loss_fn)(params, observations, actions, advantages)
    params = jax.tree.map(lambda p, g: p - 0.01 * g, params, grads)
    return params, loss


def program():
    keys = jax.random.split(jax.random.key(0), 4)
    params = {
        "w1": 0.3 * jax.random.normal(keys[0], (6, 16)),
        "b1": jnp.zeros(16),
        "w2": 0.3 * jax.random.normal(keys[1], (16, 2)),
        "scale": jnp.zeros(2),
    }
    observations = jax.random.normal(keys[2], (4, 6))
    return update, (params, keys[3], observations)
