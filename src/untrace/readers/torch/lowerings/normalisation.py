"""Layers that normalise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from untrace.readers.torch.lowerings.table import lowered_function


@lowered_function()
def layer_norm(
    input: Any,
    normalized_shape: Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> Any:
    axis: Any = tuple(range(-len(normalized_shape), 0))
    axis = axis[0] if len(axis) == 1 else axis
    mean = jnp.mean(input, axis=axis, keepdims=True)
    var = jnp.var(input, axis=axis, keepdims=True)
    out = (input - mean) * jax.lax.rsqrt(var + eps)
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


@lowered_function()
def rms_norm(
    input: Any,
    normalized_shape: Sequence[int],
    weight: Any = None,
    eps: float | None = None,
) -> Any:
    axis: Any = tuple(range(-len(normalized_shape), 0))
    axis = axis[0] if len(axis) == 1 else axis
    eps = float(jnp.finfo(input.dtype).eps) if eps is None else eps
    scale = jax.lax.rsqrt(jnp.mean(jnp.square(input), axis=axis, keepdims=True) + eps)
    return input * scale if weight is None else input * scale * weight


@lowered_function()
def group_norm(
    input: Any,
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> Any:
    groups = input.reshape((input.shape[0], num_groups, -1))
    mean = jnp.mean(groups, axis=-1, keepdims=True)
    var = jnp.var(groups, axis=-1, keepdims=True)
    out = ((groups - mean) * jax.lax.rsqrt(var + eps)).reshape(input.shape)
    out = out if weight is None else out * _channels(weight, input)
    return out if bias is None else out + _channels(bias, input)


def _channels(vector: Any, input: Any) -> Any:
    """A vector along the second axis."""
    return vector.reshape((-1, *[1] * (input.ndim - 2)))


@lowered_function()
def batch_norm_in_eval(
    input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, eps: float
) -> Any:
    mean, var = _channels(running_mean, input), _channels(running_var, input)
    out = (input - mean) * jax.lax.rsqrt(var + eps)
    out = out if weight is None else out * _channels(weight, input)
    return out if bias is None else out + _channels(bias, input)


@lowered_function()
def batch_norm_in_training(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any,
    bias: Any,
    momentum: float,
    eps: float,
) -> Any:
    axis = tuple(i for i in range(input.ndim) if i != 1)
    mean, var = jnp.mean(input, axis=axis), jnp.var(input, axis=axis)
    out = (input - _channels(mean, input)) * jax.lax.rsqrt(_channels(var, input) + eps)
    out = out if weight is None else out * _channels(weight, input)
    out = out if bias is None else out + _channels(bias, input)
    if running_mean is None:
        return out, None, None
    unbiased = jnp.var(input, axis=axis, ddof=1)
    running_mean = (1 - momentum) * running_mean + momentum * mean
    running_var = (1 - momentum) * running_var + momentum * unbiased
    return out, running_mean, running_var
