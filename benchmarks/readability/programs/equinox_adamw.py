"""A training step of an equinox MLP: clipped gradients, AdamW, a warm-up schedule."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

schedule = optax.linear_schedule(1e-3, 1e-2, transition_steps=10)
optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.adamw(schedule, weight_decay=1e-3),
)


def loss_fn(model, x, y):
    logits = jax.vmap(model)(x)
    losses = optax.sigmoid_binary_cross_entropy(logits[:, 0], y)
    return jnp.mean(losses)


def program():
    model = eqx.nn.MLP(4, 1, 16, 1, activation=jax.nn.tanh, key=jax.random.key(0))
    params, static = eqx.partition(model, eqx.is_array)

    def train_step(params, opt_state, x, y):
        def loss_of_params(params):
            return loss_fn(eqx.combine(params, static), x, y)

        loss, grads = jax.value_and_grad(loss_of_params)(params)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        return params, opt_state, loss

    x = jax.random.normal(jax.random.key(1), (4, 4))
    y = jnp.array([0.0, 1.0, 1.0, 0.0])
    return train_step, (params, optimizer.init(params), x, y)
