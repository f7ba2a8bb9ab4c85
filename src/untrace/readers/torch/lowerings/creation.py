"""New tensors."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from untrace.readers.torch.library import jax_dtype, torch
from untrace.readers.torch.lowerings.table import LOWERINGS, lowering, sizes


def _default() -> Any:
    return jax_dtype(torch.get_default_dtype())


def _typed(dtype: Any) -> dict[str, Any]:
    """What says the type of new arrays, if something is to say it."""
    return {} if dtype is None else {"dtype": dtype}


@lowering("zeros", "empty")
def zeros(*size: Any, dtype: Any = None, **named: Any) -> Any:
    return jnp.zeros(sizes(size or tuple(named.values())), dtype or _default())


@lowering()
def ones(*size: Any, dtype: Any = None, **named: Any) -> Any:
    return jnp.ones(sizes(size or tuple(named.values())), dtype or _default())


@lowering()
def full(size: Any, fill_value: Any, dtype: Any = None) -> Any:
    if dtype is None and isinstance(fill_value, float):
        dtype = _default()
    return jnp.full(tuple(size), fill_value, **_typed(dtype))


@lowering("zeros_like", "empty_like")
def zeros_like(input: Any, dtype: Any = None) -> Any:
    return jnp.zeros_like(input, **_typed(dtype))


@lowering()
def ones_like(input: Any, dtype: Any = None) -> Any:
    return jnp.ones_like(input, **_typed(dtype))


@lowering()
def full_like(input: Any, fill_value: Any, dtype: Any = None) -> Any:
    return jnp.full_like(input, fill_value, **_typed(dtype))


@lowering("new_zeros", "new_empty")
def new_zeros(input: Any, *size: Any, dtype: Any = None) -> Any:
    return jnp.zeros(sizes(size), dtype or input.dtype)


@lowering()
def new_ones(input: Any, *size: Any, dtype: Any = None) -> Any:
    return jnp.ones(sizes(size), dtype or input.dtype)


@lowering()
def new_full(input: Any, size: Any, fill_value: Any, dtype: Any = None) -> Any:
    return jnp.full(tuple(size), fill_value, dtype or input.dtype)


@lowering()
def new_tensor(input: Any, data: Any, dtype: Any = None) -> Any:
    return jnp.array(data, dtype or input.dtype)


@lowering("fill")
def fill(input: Any, value: Any) -> Any:
    return jnp.full_like(input, value)


@lowering("zero")
def zero(input: Any) -> Any:
    return jnp.zeros_like(input)


@lowering("copy")
def copy(input: Any, src: Any, non_blocking: bool = False) -> Any:
    src = src if src.dtype == input.dtype else src.astype(input.dtype)
    return src if src.shape == input.shape else jnp.broadcast_to(src, input.shape)


@lowering()
def arange(*bounds: Any, dtype: Any = None, **named: Any) -> Any:
    if named:
        given = dict(zip(("start", "end", "step"), bounds)) | named
        bounds = tuple([given[k] for k in ("start", "end", "step") if k in given])
    if len(bounds) == 2 and bounds[0] == 0:
        bounds = bounds[1:]
    return jnp.arange(*bounds, **_typed(dtype))


@lowering()
def linspace(start: Any, end: Any, steps: int, dtype: Any = None) -> Any:
    return jnp.linspace(start, end, steps, dtype=dtype or _default())


@lowering()
def eye(n: int, m: int | None = None, dtype: Any = None) -> Any:
    return jnp.eye(n, m, dtype=dtype or _default())


@lowering("tensor", "as_tensor", "scalar_tensor")
def tensor(data: Any, dtype: Any = None) -> Any:
    return jnp.asarray(data, **_typed(dtype))


for _name, _dtype in {
    "LongTensor": jnp.int32,
    "FloatTensor": jnp.float32,
    "BoolTensor": jnp.bool_,
}.items():
    LOWERINGS[_name] = lambda data, dtype=_dtype: jnp.asarray(data, dtype)
