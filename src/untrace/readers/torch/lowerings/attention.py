"""Attention."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from untrace.readers.torch.lowerings.random import KEYS, dropout
from untrace.readers.torch.lowerings.table import kept, lowered_function


@lowered_function()
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    if attn_mask is None and not dropout_p and _is_for_jax(query, key, value):
        query, key, value = (jnp.swapaxes(x, 1, 2) for x in (query, key, value))
        out = jax.nn.dot_product_attention(
            query, key, value, scale=scale, is_causal=is_causal
        )
        return jnp.swapaxes(out, 1, 2)
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key, value = (
            jnp.repeat(key, groups, axis=-3),
            jnp.repeat(value, groups, axis=-3),
        )
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ jnp.swapaxes(key, -2, -1) * scale
    mask = jnp.tril(jnp.ones(scores.shape[-2:], jnp.bool_)) if is_causal else None
    if attn_mask is not None and attn_mask.dtype == jnp.bool_:
        mask = attn_mask
    elif attn_mask is not None:
        scores, mask = scores + attn_mask, attn_mask > -jnp.inf
    weights = jax.nn.softmax(scores, axis=-1, where=mask)
    if dropout_p:
        weights = dropout(weights, KEYS.next(), dropout_p)
    return weights @ value


@lowered_function()
def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> Any:
    if bias_k is not None or add_zero_attn or static_k is not None:
        raise NotImplementedError("keys that are added to those given")
    is_single = query.ndim == 2
    if is_single:
        query, key, value = query[:, None], key[:, None], value[:, None]
    if use_separate_proj_weight:
        weights_q, weights_k, weights_v = q_proj_weight, k_proj_weight, v_proj_weight
    else:
        weights_q, weights_k, weights_v = jnp.split(in_proj_weight, 3)
    q, k, v = query @ weights_q.T, key @ weights_k.T, value @ weights_v.T
    if in_proj_bias is not None:
        bias_q, bias_k, bias_v = jnp.split(in_proj_bias, 3)
        q, k, v = q + bias_q, k + bias_k, v + bias_v
    if attn_mask is not None and attn_mask.ndim == 3:
        attn_mask = attn_mask.reshape((-1, num_heads, *attn_mask.shape[1:]))
    dropout_p = dropout_p if training else 0.0
    masks = [attn_mask] if attn_mask is not None else []
    if key_padding_mask is not None:
        padding = key_padding_mask[..., None, None, :]
        masks.append(padding)
    is_plain = not need_weights and not dropout_p and not masks
    weights: Any = None
    if is_plain and _is_for_jax(q[None], k[None], v[None]):
        q, k, v = (_split(x, num_heads) for x in (q, k, v))
        out = jnp.swapaxes(jax.nn.dot_product_attention(q, k, v), 0, 1)
    else:
        q, k = split_heads(q, num_heads), split_heads(k, num_heads)
        v = split_heads(v, num_heads)
        scores = q @ jnp.swapaxes(k, -2, -1) / math.sqrt(q.shape[-1])
        mask: Any = None
        for one in masks:
            is_bool = one.dtype == jnp.bool_
            if not is_bool:
                scores = scores + one
            elif need_weights:
                scores = jnp.where(one, -jnp.inf, scores)
            if not need_weights:  # else torch makes NaN of rows that have nothing left
                kept = ~one if is_bool else one > -jnp.inf
                mask = kept if mask is None else mask & kept
        weights = jax.nn.softmax(scores, axis=-1, where=mask)
        if dropout_p:
            weights = dropout(weights, KEYS.next(), dropout_p)
        out = jnp.transpose(weights @ v, (2, 0, 1, 3))
    out = out.reshape(query.shape) @ out_proj_weight.T
    out = out if out_proj_bias is None else out + out_proj_bias
    out = out[:, 0] if is_single else out
    if not need_weights:
        return out, None
    weights = jnp.mean(weights, axis=1) if average_attn_weights else weights
    return out, weights[0] if is_single else weights


def _is_for_jax(query: Any, key: Any, value: Any) -> bool:
    """Whether `jax.nn.dot_product_attention` takes the shapes, and computes the same.

    It computes in float32; of rows that a mask leaves nothing, it makes the mean of the
    values or NaN, and torch zeros.
    """
    is_taken = query.ndim == key.ndim == 4 and key.shape == value.shape
    return is_taken and query.shape[0] == key.shape[0] and query.dtype in _FLOATS


_FLOATS = (jnp.float32, jnp.bfloat16, jnp.float16)


@kept
def split_heads(x: Any, num_heads: int) -> Any:
    """From (length, batch, features) to (batch, head, length, features of a head)."""
    heads = x.reshape((*x.shape[:2], num_heads, -1))
    return jnp.transpose(heads, (1, 2, 0, 3))


def _split(x: Any, num_heads: int) -> Any:
    """From (length, batch, features) to (batch, length, head, features of a head)."""
    return jnp.swapaxes(x.reshape((*x.shape[:2], num_heads, -1)), 0, 1)
