"""Attention by blocks under `lax.map`, in a scan over checkpointed layers, in bfloat16.

The gradient of this program is the example with which the first tool of the kind,
jax_sourceror, introduced itself. Recover it with

    untrace show examples/attention.py 'grad_fn(params, x)'
"""

import functools

import jax
import jax.numpy as jnp


def pseudo_sliding_window_attention(x):
    """Attend within blocks of 64 positions: bf16[batch, time, heads, dim]."""

    def block(block_idx):
        query_block = jax.lax.dynamic_slice_in_dim(x, block_idx, 64, axis=1)
        weights = jnp.sum(query_block, axis=3)
        weights = jax.lax.broadcast_in_dim(weights, (4, 64, 2, 64), (0, 1, 2))
        bias = jnp.broadcast_to(jnp.ones(64), (4, 64, 2, 64))
        weights = weights + bias
        attended = jnp.einsum("bqhk,bkhd->bqhd", weights, query_block)
        return attended.astype(jnp.bfloat16)

    blocked_attn = jax.lax.map(block, jnp.arange(0, 2))
    return jnp.concatenate(blocked_attn, axis=1)


def fwd(params, x):
    """Run all layers."""

    @functools.partial(jax.checkpoint, prevent_cse=False)
    def layer(x, params):
        qkv, o = params
        y = jnp.einsum("bte,hde->bthd", x, qkv)
        y = pseudo_sliding_window_attention(y)
        z = jnp.einsum("bthd,hde->bte", y, o)
        return z, None

    x, _ = jax.lax.scan(layer, x, params)
    return x


def loss_fn(params, x):
    """Reduce to a scalar."""
    return jnp.mean(fwd(params, x))


def grad_fn(params, x):
    """Return the loss and both gradients."""
    loss, grad = jax.value_and_grad(loss_fn)(params, x)
    return loss, grad[0], grad[1]


params = (
    jnp.ones((2, 2, 16, 32), jnp.bfloat16),
    jnp.ones((2, 2, 16, 32), jnp.bfloat16),
)
x = jnp.ones((4, 128, 32), jnp.bfloat16)
