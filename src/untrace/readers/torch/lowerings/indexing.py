"""Parts of tensors, and tensors with other parts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from untrace.readers.torch.lowerings.table import lowered_function, lowering


@lowering("__getitem__", is_view=True)
def getitem(input: Any, index: Any) -> Any:
    return input[index_of(index)]


def index_of(index: Any) -> Any:
    """An index of torch as one of JAX, which takes no lists."""
    if isinstance(index, list):
        return jnp.array(index)
    if isinstance(index, tuple):
        return tuple([jnp.array(i) if isinstance(i, list) else i for i in index])
    return index


@lowering("select", is_view=True)
def select(input: Any, dim: int, index: int) -> Any:
    return input[(slice(None),) * (dim % input.ndim) + (index,)]


@lowering("narrow", is_view=True)
def narrow(input: Any, dim: int, start: int, length: int) -> Any:
    part = slice(start, start + length)
    return input[(slice(None),) * (dim % input.ndim) + (part,)]


@lowering("unbind", is_view=True)
def unbind(input: Any, dim: int = 0) -> Any:
    before = (slice(None),) * (dim % input.ndim)
    return tuple([input[(*before, i)] for i in range(input.shape[dim])])


@lowering("index_select")
def index_select(input: Any, dim: int, index: Any) -> Any:
    return jnp.take(input, index, axis=dim)


@lowering()
def take(input: Any, index: Any) -> Any:
    return jnp.take(input.reshape(-1), index)


@lowered_function()
def gather(input: Any, dim: int, index: Any, sparse_grad: bool = False) -> Any:
    ours = _cropped(input, index.shape, dim)
    return jnp.take_along_axis(ours, index, axis=dim)


def _cropped(input: Any, shape: Any, dim: int) -> Any:
    """What can be reached by an index that is shorter along the other axes."""
    dim %= input.ndim
    kept = [
        slice(None) if i == dim or n == m else slice(n)
        for i, (n, m) in enumerate(zip(shape, input.shape))
    ]
    return input[tuple(kept)] if any(s != slice(None) for s in kept) else input


@lowering("where")
def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    if input is None:
        return jnp.where(condition)
    return jnp.where(condition, input, other)


@lowering()
def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    return jnp.where(mask, value, input)


def _places(index: Any, dim: int) -> tuple[Any, ...]:
    """The full index of all elements that an index along one axis reaches."""
    grid = jnp.ogrid[tuple([slice(n) for n in index.shape])]
    return tuple([index if i == dim % index.ndim else g for i, g in enumerate(grid)])


@lowered_function()
def scatter(
    input: Any, dim: int, index: Any, src: Any, reduce: str | None = None, **named: Any
) -> Any:
    src = named.get("value", src)
    src = src[tuple([slice(n) for n in index.shape])] if jnp.ndim(src) else src
    places = input.at[_places(index, dim)]
    if reduce in ("add", "sum"):
        return places.add(src)
    return places.multiply(src) if reduce == "multiply" else places.set(src)


@lowered_function()
def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    src = src[tuple([slice(n) for n in index.shape])]
    return input.at[_places(index, dim)].add(src)


@lowered_function()
def index_add(input: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    before = (slice(None),) * (dim % input.ndim)
    return input.at[(*before, index)].add(source if alpha == 1 else alpha * source)


@lowered_function()
def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    before = (slice(None),) * (dim % input.ndim)
    return input.at[(*before, index)].set(source)


@lowered_function("index_fill")
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    before = (slice(None),) * (dim % input.ndim)
    return input.at[(*before, index)].set(value)


@lowered_function("index_put", "_index_put_impl")
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    places = input.at[tuple(indices)]
    return places.add(values) if accumulate else places.set(values)


@lowered_function()
def embedding(
    input: Any,
    weight: Any,
    padding_idx: Any = None,
    max_norm: Any = None,
    norm_type: Any = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    if max_norm is not None:
        raise NotImplementedError("max_norm changes the weight in place")
    if padding_idx is not None:  # its row is not trained
        row = jax.lax.stop_gradient(weight[padding_idx])
        weight = weight.at[padding_idx].set(row)
    return weight[input]


@lowered_function()
def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: Any = None,
    norm_type: Any = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: Any = None,
) -> Any:
    if max_norm is not None:
        raise NotImplementedError("max_norm changes the weight in place")
    if padding_idx is not None:
        raise NotImplementedError("bags of which some words are left out")
    rows = weight[input]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[..., None]
    if offsets is None:
        return {"mean": jnp.mean, "sum": jnp.sum, "max": jnp.max}[mode](rows, axis=1)
    n_bags = offsets.shape[0] - include_last_offset
    places = jnp.arange(input.shape[0])
    bags = jnp.searchsorted(offsets[:n_bags], places, side="right") - 1
    if mode == "max":
        largest = jax.ops.segment_max(rows, bags, n_bags)
        return jnp.where(jnp.isneginf(largest), 0, largest)  # of an empty bag
    total = jax.ops.segment_sum(rows, bags, n_bags)
    if mode == "sum":
        return total
    count = jax.ops.segment_sum(jnp.ones_like(rows[:, :1]), bags, n_bags)
    return total / jnp.maximum(count, 1)


@lowering("one_hot")
def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    return jax.nn.one_hot(tensor, num_classes, dtype=jnp.int32)


@lowering("bincount")
def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    return jnp.bincount(input, weights, length=minlength)


@lowering()
def searchsorted(
    sorted_sequence: Any, input: Any, right: bool = False, **_: Any
) -> Any:
    return jnp.searchsorted(sorted_sequence, input, side="right" if right else "left")
