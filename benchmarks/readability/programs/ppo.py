"""A PPO update in plain JAX: advantages by a reverse scan, clipped policy loss."""

import jax
import jax.numpy as jnp

GAMMA = 0.99
LAMBDA = 0.95
CLIP = 0.2


def policy_and_value(params, observations):
    hidden = jnp.tanh(observations @ params["hidden"] + params["bias"])
    logits = hidden @ params["policy"]
    value = (hidden @ params["value"]).squeeze(-1)
    return logits, value


def advantages_of(rewards, values, dones, last_value):
    def step(carry, transition):
        advantage, next_value = carry
        reward, value, done = transition
        delta = reward + GAMMA * next_value * (1.0 - done) - value
        advantage = delta + GAMMA * LAMBDA * (1.0 - done) * advantage
        return (advantage, value), advantage

    init = (jnp.zeros_like(last_value), last_value)
    _, advantages = jax.lax.scan(step, init, (rewards, values, dones), reverse=True)
    return advantages


def log_prob_of(logits, actions):
    log_probs = jax.nn.log_softmax(logits)
    return jnp.take_along_axis(log_probs, actions[..., None], axis=-1).squeeze(-1)


def ppo_loss(params, batch, advantages, returns):
    logits, values = policy_and_value(params, batch["observations"])
    log_prob = log_prob_of(logits, batch["actions"])
    ratio = jnp.exp(log_prob - batch["log_probs"])
    normed = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    unclipped = ratio * normed
    clipped = jnp.clip(ratio, 1.0 - CLIP, 1.0 + CLIP) * normed
    policy_loss = -jnp.minimum(unclipped, clipped).mean()
    value_loss = 0.5 * jnp.square(values - returns).mean()
    probs = jax.nn.softmax(logits)
    entropy = -jnp.sum(probs * jax.nn.log_softmax(logits), axis=-1).mean()
    loss = policy_loss + 0.5 * value_loss - 0.01 * entropy
    return loss, {"policy": policy_loss, "value": value_loss, "entropy": entropy}


def update(params, batch):
    advantages = advantages_of(
        batch["rewards"], batch["values"], batch["dones"], batch["last_value"]
    )
    returns = advantages + batch["values"]
    grad_fn = jax.grad(ppo_loss, has_aux=True)
    grads, metrics = grad_fn(params, batch, advantages, returns)
    params = jax.tree.map(lambda p, g: p - 3e-4 * g, params, grads)
    return params, metrics


def program():
    keys = jax.random.split(jax.random.key(0), 8)
    params = {
        "hidden": 0.5 * jax.random.normal(keys[0], (4, 16)),
        "bias": jnp.zeros(16),
        "policy": 0.5 * jax.random.normal(keys[1], (16, 3)),
        "value": 0.5 * jax.random.normal(keys[2], (16, 1)),
    }
    batch = {
        "observations": jax.random.normal(keys[3], (5, 2, 4)),
        "actions": jax.random.randint(keys[4], (5, 2), 0, 3),
        "log_probs": jnp.full((5, 2), -1.1),
        "rewards": jax.random.normal(keys[5], (5, 2)),
        "values": jax.random.normal(keys[6], (5, 2)),
        "dones": jnp.zeros((5, 2)).at[2, 1].set(1.0),
        "last_value": jnp.array([0.1, -0.2]),
    }
    return update, (params, batch)
