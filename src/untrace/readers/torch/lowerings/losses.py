"""Losses."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from untrace.readers.torch.lowerings.table import lowered_function


def _reduced(loss: Any, reduction: str) -> Any:
    if reduction == "mean":
        return jnp.mean(loss)
    return jnp.sum(loss) if reduction == "sum" else loss


@lowered_function()
def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    if weight is not None or label_smoothing:
        raise NotImplementedError("weights of classes and smooth labels")
    axis = 1 if input.ndim > 1 else 0
    log_probs = jax.nn.log_softmax(input, axis=axis)
    if jnp.issubdtype(target.dtype, jnp.floating):
        return _reduced(-jnp.sum(target * log_probs, axis=axis), reduction)
    return nll_loss(log_probs, target, None, None, ignore_index, None, reduction)


@lowered_function()
def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    if weight is not None:
        raise NotImplementedError("weights of classes")
    axis = 1 if input.ndim > 1 else 0
    counts = target != ignore_index
    labels = jnp.expand_dims(jnp.where(counts, target, 0), axis)
    picked = jnp.squeeze(jnp.take_along_axis(input, labels, axis=axis), axis)
    losses = jnp.where(counts, -picked, 0.0)
    if reduction == "mean":
        return jnp.sum(losses) / jnp.sum(counts)
    return _reduced(losses, reduction)


@lowered_function()
def mse_loss(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    return _reduced(jnp.square(input - target), reduction)


@lowered_function()
def l1_loss(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    return _reduced(jnp.abs(input - target), reduction)


@lowered_function()
def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    losses = jax.nn.softplus(input) - target * input
    losses = losses if weight is None else losses * weight
    return _reduced(losses, reduction)
