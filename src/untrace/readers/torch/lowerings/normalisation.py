"""Layers that normalise.

The stable algorithm is that of torch; the other one takes the difference of two means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from untrace.readers.torch.lowerings.table import (
    kept,
    kept_as,
    layer,
    lowered_function,
    lowering,
)

_STABLE: dict[str, Any] = {"algorithm": "stable"}


def _options(eps: float) -> dict[str, Any]:
    """What `jax.nn.standardize` is told where its default is another."""
    return {} if eps == 1e-5 else {"epsilon": eps}


@lowered_function()
def layer_norm(
    input: Any,
    normalized_shape: Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> Any:
    options = _options(eps)
    if len(normalized_shape) > 1:
        options["axis"] = tuple(range(-len(normalized_shape), 0))
    out = jax.nn.standardize(input, **_STABLE, **options)
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


@layer("GroupNorm")
def _group_norm(module: Any, x: Any) -> Any:
    return group_norm_layer(module, x, module.num_groups, module.eps)


@kept_as("group_norm")
def group_norm_layer(params: Any, x: Any, num_groups: int, eps: float) -> Any:
    weight, bias = (p if p is None else p.array for p in (params.weight, params.bias))
    return group_norm(x, num_groups, weight, bias, eps)


@lowered_function()
def group_norm(
    input: Any,
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> Any:
    groups = input.reshape((input.shape[0], num_groups, -1))
    out = jax.nn.standardize(groups, **_STABLE, **_options(eps))
    out = out.reshape(input.shape)
    out = out if weight is None else out * _channels(weight, input)
    return out if bias is None else out + _channels(bias, input)


@lowered_function()
def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    if running_mean is not None:
        raise NotImplementedError("statistics of instances that are kept")
    axis = tuple(range(2, input.ndim))
    out = jax.nn.standardize(input, axis, **_STABLE, **_options(eps))
    out = out if weight is None else out * _channels(weight, input)
    return out if bias is None else out + _channels(bias, input)


@lowering("_weight_norm")
@kept
def weight_norm(v: Any, g: Any, dim: int = 0) -> Any:
    """A weight of a direction and a length along every other axis."""
    axis = tuple(i for i in range(v.ndim) if i != dim % v.ndim)
    return v * (g / jnp.linalg.vector_norm(v, axis=axis, keepdims=True))


def _channels(vector: Any, input: Any) -> Any:
    """A vector along the second axis."""
    return vector.reshape((-1, *[1] * (input.ndim - 2)))


@lowered_function()
def batch_norm_in_eval(
    input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, eps: float
) -> Any:
    mean, var = _channels(running_mean, input), _channels(running_var, input)
    out = jax.nn.standardize(input, 1, mean, var, **_options(eps))
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
    of_channels = _channels(mean, input), _channels(var, input)
    out = jax.nn.standardize(input, axis, *of_channels, **_options(eps))
    out = out if weight is None else out * _channels(weight, input)
    out = out if bias is None else out + _channels(bias, input)
    if running_mean is None:
        return out, None, None
    unbiased = jnp.var(input, axis=axis, ddof=1)
    running_mean = (1 - momentum) * running_mean + momentum * mean
    running_var = (1 - momentum) * running_var + momentum * unbiased
    return out, running_mean, running_var
