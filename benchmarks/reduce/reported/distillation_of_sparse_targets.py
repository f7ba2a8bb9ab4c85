"""The gradient of a divergence by its targets is NaN where a target is zero.

https://github.com/google-deepmind/optax/pull/1786
"""

import jax
import jax.numpy as jnp
import optax

CALL = "teacher_gradient(teacher, student, features, valid)"


def distillation(teacher, student, features, valid):
    power = (jnp.tanh(features @ teacher["first"]) @ teacher["second"] * valid) ** 2
    targets = power / power.sum(-1, keepdims=True)
    hidden = jax.nn.gelu(features @ student["first"])
    predictions = jax.nn.log_softmax(hidden @ student["second"])
    divergence = optax.losses.kl_divergence(predictions, targets)
    decay = sum(jnp.sum(x**2) for x in jax.tree.leaves(teacher))
    return divergence.mean() + 1e-4 * decay


def teacher_gradient(teacher, student, features, valid):
    return jax.value_and_grad(distillation)(teacher, student, features, valid)


keys = jax.random.split(jax.random.key(0), 5)
features = jax.random.normal(keys[0], (6, 4))
teacher = {
    "first": jax.random.normal(keys[1], (4, 8)),
    "second": jax.random.normal(keys[2], (8, 5)),
}
student = {
    "first": jax.random.normal(keys[3], (4, 3)),
    "second": jax.random.normal(keys[4], (3, 5)),
}
valid = jnp.arange(5) != jnp.arange(6)[:, None] % 5
