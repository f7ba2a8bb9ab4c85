"""Sums, means and extrema; sorting."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from untrace.readers.torch.lowerings.table import axes, lowered_function, lowering


def _options(keepdim: bool) -> dict[str, Any]:
    return {"keepdims": True} if keepdim else {}


@lowering("sum", "nansum")
def sum_(input: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    options = _options(keepdim) | ({} if dtype is None else {"dtype": dtype})
    return jnp.sum(input, axis=axes(dim), **options)


@lowering("mean")
def mean(input: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    options = _options(keepdim) | ({} if dtype is None else {"dtype": dtype})
    return jnp.mean(input, axis=axes(dim), **options)


@lowering()
def prod(input: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    options = _options(keepdim) | ({} if dtype is None else {"dtype": dtype})
    return jnp.prod(input, axis=dim, **options)


@lowering()
def amax(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return jnp.max(input, axis=axes(dim), **_options(keepdim))


@lowering()
def amin(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return jnp.min(input, axis=axes(dim), **_options(keepdim))


@lowering("any")
def any_(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return jnp.any(input, axis=axes(dim), **_options(keepdim))


@lowering("all")
def all_(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return jnp.all(input, axis=axes(dim), **_options(keepdim))


@lowering()
def argmax(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return jnp.argmax(input, axis=dim, **_options(keepdim))


@lowering()
def argmin(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return jnp.argmin(input, axis=dim, **_options(keepdim))


@lowering("max")
def max_(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if dim is None:
        return jnp.max(input)
    if isinstance(dim, jax.Array):
        return jnp.maximum(input, dim)
    options = _options(keepdim)
    return jnp.max(input, axis=dim, **options), jnp.argmax(input, axis=dim, **options)


@lowering("min")
def min_(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if dim is None:
        return jnp.min(input)
    if isinstance(dim, jax.Array):
        return jnp.minimum(input, dim)
    options = _options(keepdim)
    return jnp.min(input, axis=dim, **options), jnp.argmin(input, axis=dim, **options)


def _ddof(unbiased: Any, correction: Any) -> dict[str, Any]:
    ddof = int(bool(unbiased)) if correction is None else correction
    return {"ddof": ddof} if ddof else {}


@lowering()
def var(
    input: Any,
    dim: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    correction: Any = None,
) -> Any:
    options = _options(keepdim) | _ddof(unbiased, correction)
    return jnp.var(input, axis=axes(dim), **options)


@lowering()
def std(
    input: Any,
    dim: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    correction: Any = None,
) -> Any:
    options = _options(keepdim) | _ddof(unbiased, correction)
    return jnp.std(input, axis=axes(dim), **options)


@lowering()
def var_mean(input: Any, dim: Any = None, **options: Any) -> Any:
    return var(input, dim, **options), mean(input, dim, options.get("keepdim", False))


@lowering()
def softmax(input: Any, dim: Any = None, *_: Any, dtype: Any = None, **__: Any) -> Any:
    return jax.nn.softmax(_cast(input, dtype), axis=_softmax_axis(input, dim))


def _softmax_axis(input: Any, dim: Any) -> int:
    """The axis that torch takes where none is given."""
    return (0 if input.ndim in (0, 1, 3) else 1) if dim is None else dim


@lowering("_softmax")
def _softmax(input: Any, dim: int, half_to_float: bool) -> Any:
    return jax.nn.softmax(input, axis=dim)


@lowering("_log_softmax")
def _log_softmax(input: Any, dim: int, half_to_float: bool) -> Any:
    return jax.nn.log_softmax(input, axis=dim)


@lowering()
def log_softmax(
    input: Any, dim: Any = None, *_: Any, dtype: Any = None, **__: Any
) -> Any:
    return jax.nn.log_softmax(_cast(input, dtype), axis=_softmax_axis(input, dim))


def _cast(input: Any, dtype: Any) -> Any:
    is_there = dtype is None or input.dtype == jnp.dtype(dtype)
    return input if is_there else input.astype(dtype)


@lowering("logsumexp")
def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Any:
    return jax.nn.logsumexp(input, axis=axes(dim), **_options(keepdim))


@lowering()
def cumsum(input: Any, dim: int, dtype: Any = None) -> Any:
    return jnp.cumsum(input, axis=dim, dtype=dtype)


@lowering()
def cumprod(input: Any, dim: int, dtype: Any = None) -> Any:
    return jnp.cumprod(input, axis=dim, dtype=dtype)


@lowered_function("norm", "vector_norm", "linalg_vector_norm")
def norm(
    input: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    """Of a vector, also along two axes, where `jnp.linalg.norm` takes that of a matrix."""
    if p == "nuc":
        raise NotImplementedError("the norm of a matrix")
    order = 2 if p in ("fro", None) else p
    input = input if dtype is None else input.astype(dtype)
    along = axes(dim)
    if isinstance(along, tuple) and len(along) == 1:
        along = along[0]
    is_axis = isinstance(along, int)
    function = jnp.linalg.norm if is_axis else jnp.linalg.vector_norm
    return function(input, ord=order, axis=along, **_options(keepdim))


@lowered_function()
def linalg_norm(
    A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    n_axes = A.ndim if dim is None else 1 if isinstance(dim, int) else len(dim)
    if ord is not None and n_axes != 1:
        raise NotImplementedError("the norm of a matrix")
    return norm(A, ord, dim, keepdim, dtype)


@lowered_function()
def normalize(input: Any, p: Any = 2.0, dim: Any = 1, eps: float = 1e-12) -> Any:
    return input / jnp.maximum(norm(input, p, dim, keepdim=True), eps)


@lowering()
def sort(
    input: Any, dim: int = -1, descending: bool = False, stable: bool = False
) -> Any:
    options: dict[str, Any] = {"descending": True} if descending else {}
    return jnp.sort(input, axis=dim, **options), jnp.argsort(input, axis=dim, **options)


@lowering()
def argsort(
    input: Any, dim: int = -1, descending: bool = False, stable: bool = False
) -> Any:
    options: dict[str, Any] = {"descending": True} if descending else {}
    return jnp.argsort(input, axis=dim, **options)


@lowered_function()
def topk(
    input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Any:
    if dim not in (-1, input.ndim - 1):
        values, indices = topk(jnp.moveaxis(input, dim, -1), k, -1, largest)
        return jnp.moveaxis(values, -1, dim), jnp.moveaxis(indices, -1, dim)
    if not largest:
        values, indices = jax.lax.top_k(-input, k)
        return -values, indices
    return jax.lax.top_k(input, k)
