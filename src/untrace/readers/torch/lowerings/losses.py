"""Losses.

`size_average` and `reduce`, which torch had before `reduction`, are left to torch, and so
are its own functions of the same names, which are given `reduction` as a number.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from untrace.readers.torch.lowerings.table import lowered_function


def _reduced(loss: Any, reduction: str) -> Any:
    if reduction == "mean":
        return jnp.mean(loss)
    return jnp.sum(loss) if reduction == "sum" else loss


def _weighted(losses: Any, weight: Any, reduction: str) -> Any:
    return _reduced(losses if weight is None else losses * weight, reduction)


@lowered_function()
def cross_entropy(
    input: Any,
    target: Any,
    *,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    axis = 1 if input.ndim > 1 else 0
    log_probs = jax.nn.log_softmax(input, axis=axis)
    n_classes = input.shape[axis]
    if jnp.issubdtype(target.dtype, jnp.floating):
        if label_smoothing:
            target = target * (1 - label_smoothing) + label_smoothing / n_classes
        log_probs = _of_classes(log_probs, weight, axis)
        return _reduced(-jnp.sum(target * log_probs, axis=axis), reduction)
    options = {"weight": weight, "ignore_index": ignore_index}
    if not label_smoothing:
        return nll_loss(log_probs, target, **options, reduction=reduction)
    losses = nll_loss(log_probs, target, **options, reduction="none")
    spread = -jnp.mean(_of_classes(log_probs, weight, axis), axis=axis)
    spread = jnp.where(target != ignore_index, spread, 0.0)
    losses = (1 - label_smoothing) * losses + label_smoothing * spread
    return _of_labels(losses, target, weight, ignore_index, reduction)


@lowered_function()
def nll_loss(
    input: Any,
    target: Any,
    *,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Any:
    axis = 1 if input.ndim > 1 else 0
    counts = target != ignore_index
    labels = jnp.expand_dims(jnp.where(counts, target, 0), axis)
    input = _of_classes(input, weight, axis)
    picked = jnp.squeeze(jnp.take_along_axis(input, labels, axis=axis), axis)
    losses = jnp.where(counts, -picked, 0.0)
    return _of_labels(losses, target, weight, ignore_index, reduction)


def _of_classes(values: Any, weight: Any, axis: int) -> Any:
    """The values of all classes, each times its weight."""
    if weight is None:
        return values
    return values * weight.reshape((-1,) + (1,) * (values.ndim - axis - 1))


def _of_labels(
    losses: Any, target: Any, weight: Any, ignore_index: int, reduction: str
) -> Any:
    """The sum or the mean of losses: that of those that count, by their weights."""
    if reduction != "mean":
        return _reduced(losses, reduction)
    counts = target != ignore_index
    if weight is not None:
        counts = jnp.where(counts, weight[jnp.where(counts, target, 0)], 0.0)
    return jnp.sum(losses) / jnp.sum(counts)


@lowered_function()
def mse_loss(
    input: Any,
    target: Any,
    *,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    return _reduced(jnp.square(input - target), reduction)


@lowered_function()
def l1_loss(
    input: Any,
    target: Any,
    *,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    return _reduced(jnp.abs(input - target), reduction)


@lowered_function()
def binary_cross_entropy(
    input: Any,
    target: Any,
    *,
    weight: Any = None,
    reduction: str = "mean",
) -> Any:
    is_one = jnp.maximum(jnp.log(input), -100)
    is_zero = jnp.maximum(jnp.log1p(-input), -100)
    losses = (target - 1) * is_zero - target * is_one
    return _weighted(losses, weight, reduction)


@lowered_function()
def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    *,
    weight: Any = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    losses = jax.nn.softplus(input) - target * input
    return _weighted(losses, weight, reduction)
