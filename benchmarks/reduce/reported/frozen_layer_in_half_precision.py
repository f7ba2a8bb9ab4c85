"""In sixteen bits the epsilon of NovoGrad is zero, so that a zero gradient gives NaN.

https://github.com/google-deepmind/optax/issues/1789
"""

import jax
import jax.numpy as jnp
import optax

CALL = "step(params, state, x)"

optimizer = optax.novograd(1e-3, weight_decay=1e-2)


def loss(params, x):
    frozen = jax.lax.stop_gradient(params["encoder"])
    hidden = jnp.tanh(x @ frozen)
    return jnp.mean((hidden @ params["decoder"] - x) ** 2)


def step(params, state, x):
    gradients = jax.grad(loss)(params, x)
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state


params = {
    "encoder": jax.random.normal(jax.random.key(0), (4, 3), jnp.float16),
    "decoder": jax.random.normal(jax.random.key(1), (3, 4), jnp.float16),
}
state = optimizer.init(params)
x = jax.random.normal(jax.random.key(2), (6, 4), jnp.float16)
