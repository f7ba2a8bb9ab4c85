"""Small programs for the tests of the reducer."""

import jax
import jax.numpy as jnp
import numpy as np


def deep(n_layers: int = 12, width: int = 8):
    """Return a function of many equations that is NaN in one place, and its inputs."""

    def layer(x, w):
        return jax.nn.gelu(x @ w) + x

    def function(ws, x, y):
        for i, w in enumerate(ws):
            x = jax.jit(layer)(x, w)
            if i == n_layers // 2:
                x = x + jnp.log(y - 2.0)
        return {"loss": jnp.sum(x), "mean": jnp.mean(x**2), "y": y * 2}

    rng = np.random.default_rng(0)
    ws = [rng.normal(size=(width, width)).astype(np.float32) for _ in range(n_layers)]
    x = rng.normal(size=(4, width)).astype(np.float32)
    return function, (ws, x, np.float32(1.0))
