"""Other shapes, other orders of axes, other types; tensors joined and split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from untrace import jaxapi
from untrace.readers.torch.lowerings.table import lowered_function, lowering, sizes


@lowering("view", "reshape", "_unsafe_view", is_view=True)
def reshape(input: Any, *shape: Any, **named: Any) -> Any:
    shape = tuple(named.values()) or shape
    if len(shape) == 1 and isinstance(shape[0], (jnp.dtype, type)):
        return input.view(shape[0])
    return input.reshape(_filled(input, sizes(shape)))


def _filled(array: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape as it was given; JAX takes -1, too, but not beside a length of 0."""
    if -1 not in shape or 0 not in shape:
        return shape
    known = math.prod(size for size in shape if size != -1)
    return tuple([array.size // known if size == -1 else size for size in shape])


@lowering(is_view=True)
def view_as(input: Any, other: Any) -> Any:
    return input.reshape(other.shape)


@lowering(is_view=True)
def reshape_as(input: Any, other: Any) -> Any:
    return input.reshape(other.shape)


@lowering(is_view=True)
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    n = max(input.ndim, 1)
    start, end = start_dim % n, end_dim % n
    if start == end and input.ndim:
        return input
    before, after = input.shape[:start], input.shape[end + 1 :]
    return input.reshape((*before, -1, *after))


@lowering(is_view=True)
def unflatten(input: Any, dim: int, sizes: Sequence[int]) -> Any:
    dim %= input.ndim
    return input.reshape((*input.shape[:dim], *sizes, *input.shape[dim + 1 :]))


@lowering(is_view=True)
def ravel(input: Any) -> Any:
    return input.reshape(-1)


@lowering("transpose", "swapaxes", "swapdims", is_view=True)
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    return jnp.swapaxes(input, dim0, dim1)


@lowering("permute", is_view=True)
def permute(input: Any, *dims: Any, **named: Any) -> Any:
    return jnp.transpose(input, sizes(tuple(named.values()) or dims))


@lowering("movedim", "moveaxis", is_view=True)
def movedim(input: Any, source: Any, destination: Any) -> Any:
    return jnp.moveaxis(input, source, destination)


@lowering("t", "T", "numpy_T", is_view=True)
def t(input: Any) -> Any:
    return input.T


@lowering("mT", "adjoint", is_view=True)
def mT(input: Any) -> Any:
    return input.mT


@lowering("H", "mH")
def mH(input: Any) -> Any:
    return input.mT.conj()


@lowering(is_view=True)
def unsqueeze(input: Any, dim: int) -> Any:
    return jnp.expand_dims(input, dim)


@lowering(is_view=True)
def squeeze(input: Any, dim: Any = None) -> Any:
    if dim is None:
        return jnp.squeeze(input)
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    ones = [d for d in dims if input.ndim and input.shape[d] == 1]
    if not ones:
        return input
    return jnp.squeeze(input, ones[0] if len(ones) == 1 else tuple(ones))


@lowering("expand", "broadcast_to", is_view=True)
def expand(input: Any, *shape: Any, **named: Any) -> Any:
    shape = sizes(tuple(named.values())[:1] or shape)
    extra = len(shape) - input.ndim
    whole = [
        input.shape[i - extra] if size == -1 else size for i, size in enumerate(shape)
    ]
    return jnp.broadcast_to(input, tuple(whole))


@lowering(is_view=True)
def expand_as(input: Any, other: Any) -> Any:
    return jnp.broadcast_to(input, other.shape)


@lowering("repeat", "tile")
def repeat(input: Any, *repeats: Any, **named: Any) -> Any:
    return jnp.tile(input, sizes(tuple(named.values()) or repeats))


@lowering()
def repeat_interleave(input: Any, repeats: Any, dim: Any = None, **_: Any) -> Any:
    if isinstance(repeats, int):
        return jnp.repeat(input, repeats, axis=dim)
    total = None if isinstance(repeats, jaxapi.Tracer) else int(repeats.sum())
    return jnp.repeat(input, repeats, axis=dim, total_repeat_length=total)


@lowering("cat", "concat", "concatenate")
def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    kept = [one for one in tensors if one.shape != (0,)]
    return jnp.concatenate(kept or tensors, axis=dim)


@lowering()
def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    return jnp.stack(tensors, axis=dim)


@lowering()
def hstack(tensors: Sequence[Any]) -> Any:
    return jnp.hstack(tensors)


@lowering("vstack", "row_stack")
def vstack(tensors: Sequence[Any]) -> Any:
    return jnp.vstack(tensors)


@lowering("split", "split_with_sizes", is_view=True)
def split(tensor: Any, split_size_or_sections: Any, dim: int = 0, **named: Any) -> Any:
    given: Any = split_size_or_sections
    length = tensor.shape[dim]
    if isinstance(given, int):
        if length % given == 0:
            return jnp.split(tensor, length // given, axis=dim)
        given = [given] * (length // given) + [length % given]
    ends = [sum(given[: i + 1]) for i in range(len(given) - 1)]
    return jnp.split(tensor, ends, axis=dim)


@lowering(is_view=True)
def chunk(input: Any, chunks: int, dim: int = 0) -> Any:
    length = input.shape[dim]
    size = -(-length // chunks)
    if length % size == 0:
        return jnp.split(input, length // size, axis=dim)
    return split(input, size, dim)


@lowering()
def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> Any:
    return jnp.array_split(input, indices_or_sections, axis=dim)


@lowering("flip")
def flip(input: Any, *dims: Any) -> Any:
    return jnp.flip(input, sizes(dims))


@lowering()
def roll(input: Any, shifts: Any, dims: Any = None) -> Any:
    return jnp.roll(input, shifts, axis=tuple(dims) if isinstance(dims, list) else dims)


@lowering()
def rot90(input: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    return jnp.rot90(input, k, axes=tuple(dims))


@lowering("tril")
def tril(input: Any, diagonal: int = 0) -> Any:
    return jnp.tril(input, diagonal) if diagonal else jnp.tril(input)


@lowering("triu")
def triu(input: Any, diagonal: int = 0) -> Any:
    return jnp.triu(input, diagonal) if diagonal else jnp.triu(input)


@lowering()
def diag(input: Any, diagonal: int = 0) -> Any:
    return jnp.diag(input, diagonal)


@lowering()
def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return jnp.diagonal(input, offset, dim1, dim2)


@lowering()
def meshgrid(*tensors: Any, indexing: str = "ij") -> Any:
    given = tensors[0] if isinstance(tensors[0], (tuple, list)) else tensors
    return jnp.meshgrid(*given, indexing=indexing)


@lowering()
def unfold(input: Any, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError


@lowering("broadcast_tensors")
def broadcast_tensors(*tensors: Any) -> Any:
    return jnp.broadcast_arrays(*tensors)


@lowered_function()
def view_as_complex(input: Any) -> Any:
    return jax.lax.complex(input[..., 0], input[..., 1])


@lowered_function()
def view_as_real(input: Any) -> Any:
    return jnp.stack([input.real, input.imag], axis=-1)


@lowered_function()
def polar(abs: Any, angle: Any) -> Any:
    return jax.lax.complex(abs * jnp.cos(angle), abs * jnp.sin(angle))


@lowering("complex")
def complex_(real: Any, imag: Any) -> Any:
    return jax.lax.complex(real, imag)


# ---- types ---------------------------------------------------------------------------


@lowering("to", "type", "_to_copy")
def to(input: Any, *args: Any, dtype: Any = None, **_: Any) -> Any:
    for given in args:
        if isinstance(given, jax.Array):
            dtype = given.dtype
        elif isinstance(given, (jnp.dtype, type(jnp.float32))):
            dtype = given
    if dtype is None or jnp.dtype(dtype) == input.dtype:
        return input
    return input.astype(dtype)


@lowering()
def type_as(input: Any, other: Any) -> Any:
    return input if other.dtype == input.dtype else input.astype(other.dtype)


def _conversion(name: str, dtype: Any) -> None:
    lowering(name)(lambda input, *_, **__: to(input, dtype=dtype))


for _name, _dtype in {
    "float": jnp.float32,
    "double": jnp.float32,
    "half": jnp.float16,
    "bfloat16": jnp.bfloat16,
    "int": jnp.int32,
    "long": jnp.int32,
    "short": jnp.int16,
    "bool": jnp.bool_,
}.items():
    _conversion(_name, _dtype)


@lowering("contiguous", "clone", "cpu", "cuda", "lift_fresh", "alias", "requires_grad_")
def same(input: Any, *_: Any, **__: Any) -> Any:
    return input


@lowering("detach")
def detach(input: Any) -> Any:
    return jax.lax.stop_gradient(input)


# ---- what is known without computing --------------------------------------------------


@lowering()
def size(input: Any, dim: int | None = None) -> Any:
    from untrace.readers.torch.library import torch

    return torch.Size(input.shape) if dim is None else input.shape[dim]


@lowering("dim", "ndimension")
def dim(input: Any) -> int:
    return input.ndim


@lowering("numel", "nelement")
def numel(input: Any) -> int:
    return input.size


@lowering("__len__")
def length(input: Any) -> int:
    return len(input)


@lowering()
def is_floating_point(input: Any) -> bool:
    return jnp.issubdtype(input.dtype, jnp.floating)


@lowering()
def is_complex(input: Any) -> bool:
    return jnp.issubdtype(input.dtype, jnp.complexfloating)


@lowering()
def is_contiguous(input: Any, **_: Any) -> bool:
    return True


@lowering("item", "__bool__", "__int__", "__float__", "__index__", "tolist")
def item(input: Any) -> Any:
    return input.item() if input.ndim == 0 else input.tolist()
