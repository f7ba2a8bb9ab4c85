"""An equinox transformer for sequence classification, one example at a time."""

import equinox as eqx
import jax
import jax.numpy as jnp


class Block(eqx.Module):
    """Attention and a feed-forward network with residuals."""

    attention: eqx.nn.MultiheadAttention
    norm_1: eqx.nn.LayerNorm
    norm_2: eqx.nn.LayerNorm
    up: eqx.nn.Linear
    down: eqx.nn.Linear

    def __init__(self, width, heads, key):
        keys = jax.random.split(key, 3)
        self.attention = eqx.nn.MultiheadAttention(heads, width, key=keys[0])
        self.norm_1 = eqx.nn.LayerNorm(width)
        self.norm_2 = eqx.nn.LayerNorm(width)
        self.up = eqx.nn.Linear(width, 2 * width, key=keys[1])
        self.down = eqx.nn.Linear(2 * width, width, key=keys[2])

    def feed_forward(self, x):
        return self.down(jax.nn.gelu(self.up(x)))

    def __call__(self, x):
        y = jax.vmap(self.norm_1)(x)
        x = x + self.attention(y, y, y)
        y = jax.vmap(self.norm_2)(x)
        return x + jax.vmap(self.feed_forward)(y)


class Transformer(eqx.Module):
    """Embedding, blocks, mean, head."""

    embedding: eqx.nn.Embedding
    positions: jax.Array
    blocks: list[Block]
    head: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key, 5)
        self.embedding = eqx.nn.Embedding(20, 16, key=keys[0])
        self.positions = 0.1 * jax.random.normal(keys[1], (8, 16))
        self.blocks = [Block(16, 2, k) for k in keys[2:4]]
        self.head = eqx.nn.Linear(16, 3, key=keys[4])

    def __call__(self, tokens):
        x = jax.vmap(self.embedding)(tokens) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(jnp.mean(x, axis=0))


def program():
    model = Transformer(jax.random.key(0))
    params, static = eqx.partition(model, eqx.is_array)

    def predict(params, batch):
        model = eqx.combine(params, static)
        logits = jax.vmap(model)(batch)
        return jax.nn.log_softmax(logits)

    batch = jax.random.randint(jax.random.key(1), (4, 8), 0, 20)
    return predict, (params, batch)
