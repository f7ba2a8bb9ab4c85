"""A transformer encoder of flax linen blocks."""

import flax.linen as nn
import jax
import jax.numpy as jnp


class EncoderBlock(nn.Module):
    """Attention and a feed-forward network, with the norms first."""

    heads: int
    hidden: int

    @nn.compact
    def __call__(self, x, mask):
        y = nn.LayerNorm()(x)
        y = nn.MultiHeadDotProductAttention(num_heads=self.heads)(y, y, mask=mask)
        x = x + y
        y = nn.LayerNorm()(x)
        y = nn.Dense(self.hidden)(y)
        y = nn.gelu(y)
        y = nn.Dense(x.shape[-1])(y)
        return x + y


class Encoder(nn.Module):
    """Embeddings, blocks, and a mean over the tokens that are there."""

    layers: int = 2
    width: int = 16
    classes: int = 3

    @nn.compact
    def __call__(self, tokens):
        present = tokens > 0
        mask = nn.make_attention_mask(present, present)
        x = nn.Embed(20, self.width)(tokens)
        positions = self.param(
            "positions", nn.initializers.normal(0.02), (tokens.shape[1], self.width)
        )
        x = x + positions
        for _ in range(self.layers):
            x = EncoderBlock(heads=2, hidden=32)(x, mask)
        weights = present[..., None].astype(x.dtype)
        pooled = jnp.sum(x * weights, axis=1) / jnp.sum(weights, axis=1)
        return nn.Dense(self.classes, name="head")(pooled)


model = Encoder()


def predict(params, tokens):
    logits = model.apply(params, tokens)
    return nn.softmax(logits)


def program():
    tokens = jnp.array([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 0, 0], [5, 8, 9, 0, 0, 0]])
    params = model.init(jax.random.key(0), tokens)
    return predict, (params, tokens)
