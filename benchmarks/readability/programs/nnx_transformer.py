"""The loss of a flax nnx transformer block, split into graph and state."""

import jax
import jax.numpy as jnp
from flax import nnx


class Block(nnx.Module):
    """Self-attention and a gated feed-forward network."""

    def __init__(self, width, heads, rngs):
        self.attention = nnx.MultiHeadAttention(
            num_heads=heads, in_features=width, decode=False, rngs=rngs
        )
        self.norm_1 = nnx.RMSNorm(width, rngs=rngs)
        self.norm_2 = nnx.RMSNorm(width, rngs=rngs)
        self.gate = nnx.Linear(width, 2 * width, use_bias=False, rngs=rngs)
        self.up = nnx.Linear(width, 2 * width, use_bias=False, rngs=rngs)
        self.down = nnx.Linear(2 * width, width, use_bias=False, rngs=rngs)

    def __call__(self, x):
        mask = nnx.make_causal_mask(x[..., 0])
        x = x + self.attention(self.norm_1(x), mask=mask)
        y = self.norm_2(x)
        gated = nnx.silu(self.gate(y)) * self.up(y)
        return x + self.down(gated)


class Transformer(nnx.Module):
    """Two blocks between an embedding and its transpose."""

    def __init__(self, vocabulary, width, rngs):
        self.embed = nnx.Embed(vocabulary, width, rngs=rngs)
        self.block_1 = Block(width, 2, rngs)
        self.block_2 = Block(width, 2, rngs)
        self.norm = nnx.RMSNorm(width, rngs=rngs)

    def __call__(self, tokens):
        x = self.embed(tokens)
        x = self.block_1(x)
        x = self.block_2(x)
        return self.embed.attend(self.norm(x))


def program():
    model = Transformer(20, 16, nnx.Rngs(0))
    graph, state = nnx.split(model)

    def loss_fn(state, tokens):
        model = nnx.merge(graph, state)
        logits = model(tokens[:, :-1])
        targets = jax.nn.one_hot(tokens[:, 1:], 20)
        log_probs = jax.nn.log_softmax(logits)
        return -jnp.mean(jnp.sum(log_probs * targets, axis=-1))

    tokens = jax.random.randint(jax.random.key(1), (4, 9), 0, 20)
    return loss_fn, (nnx.to_pure_dict(state), tokens)
