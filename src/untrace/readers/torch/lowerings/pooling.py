"""Pooling, and images of other sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from untrace.readers.torch.lowerings.linear import as_sizes
from untrace.readers.torch.lowerings.table import lowered_function, lowering


def _window(value: Any, n: int) -> tuple[int, ...]:
    return (1, 1, *as_sizes(value, n))


def _sizes(given: Any, n: int) -> Sequence[int | None]:
    return given if isinstance(given, (tuple, list)) else (given,) * n


def _pads(
    input: Any, size: Any, stride: Any, padding: Any, n: int, ceil_mode: bool
) -> Any:
    """How far a window reaches beyond the input, by axis."""
    pads = [(0, 0), (0, 0)]
    axes = zip(
        input.shape[2:], as_sizes(size, n), as_sizes(stride, n), as_sizes(padding, n)
    )
    for length, window, step, pad in axes:
        more = (step - (length + 2 * pad - window) % step) % step if ceil_mode else 0
        pads.append((pad, pad + more))
    return pads if any(map(any, pads)) else "VALID"


def _pools(n: int) -> None:
    def max_pool(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        stride = kernel_size if stride is None or stride == [] else stride
        return jax.lax.reduce_window(
            input,
            -jnp.inf,
            jax.lax.max,
            _window(kernel_size, n),
            _window(stride, n),
            _pads(input, kernel_size, stride, padding, n, ceil_mode),
        )

    def avg_pool(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Any:
        stride = kernel_size if stride is None or stride == [] else stride
        pads = _pads(input, kernel_size, stride, padding, n, False)
        if ceil_mode or (pads != "VALID" and not count_include_pad):
            raise NotImplementedError("windows that are counted in part")
        total = jax.lax.reduce_window(
            input,
            0.0,
            jax.lax.add,
            _window(kernel_size, n),
            _window(stride, n),
            pads,
        )
        count = 1
        for size in as_sizes(kernel_size, n):
            count *= size
        return total / (divisor_override or count)

    def adaptive_avg_pool(input: Any, output_size: Any) -> Any:
        space = input.shape[-n:]
        wanted = [
            length if size is None else size
            for length, size in zip(space, _sizes(output_size, n))
        ]
        if set(wanted) == {1}:
            return jnp.mean(input, axis=tuple(range(-n, 0)), keepdims=True)
        if any(length % size for length, size in zip(space, wanted)):
            raise NotImplementedError("windows of several sizes")
        shape = [x for a, b in zip(wanted, space) for x in (a, b // a)]
        parts = input.reshape((*input.shape[:-n], *shape))
        return jnp.mean(parts, axis=tuple(range(-2 * n + 1, 0, 2)))

    for function in (max_pool, avg_pool, adaptive_avg_pool):
        name = f"{function.__name__}{n}d"
        function.__name__ = function.__qualname__ = name
        function.__code__ = function.__code__.replace(co_name=name)
        lowered_function(name)(function)
    lowering(f"_max_pool{n}d")(max_pool)

    def with_indices(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = True,
    ) -> Any:
        stride = kernel_size if stride is None or stride == [] else stride
        space = input.shape[-n:]
        places = jnp.arange(math.prod(space)).reshape(space)
        _, indices = jax.lax.reduce_window(
            (jax.lax.stop_gradient(input), jnp.broadcast_to(places, input.shape)),
            (jnp.array(-jnp.inf, input.dtype), jnp.array(places.size)),
            _larger,
            _window(kernel_size, n),
            _window(stride, n),
            _pads(input, kernel_size, stride, padding, n, ceil_mode),
        )
        return max_pool(
            input, kernel_size, stride, padding, dilation, ceil_mode
        ), indices

    lowering(f"max_pool{n}d_with_indices")(with_indices)

    def adaptive_max_pool(
        input: Any, output_size: Any, return_indices: bool = False
    ) -> Any:
        space = input.shape[-n:]
        wanted = [
            length if size is None else size
            for length, size in zip(space, _sizes(output_size, n))
        ]
        if any(length % size for length, size in zip(space, wanted)):
            raise NotImplementedError("windows of several sizes")
        window = [b // a for a, b in zip(wanted, space)]
        return max_pool(input, window)

    lowered_function(f"adaptive_max_pool{n}d")(adaptive_max_pool)


def _larger(one: Any, other: Any) -> Any:
    """The larger value and its place; the first one of equal values."""
    is_first = (one[0] > other[0]) | ((one[0] == other[0]) & (one[1] < other[1]))
    return tuple(jnp.where(is_first, a, b) for a, b in zip(one, other))


for _n in (1, 2, 3):
    _pools(_n)


@lowered_function()
def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: Any = None,
    antialias: bool = False,
) -> Any:
    n = input.ndim - 2
    if size is None:
        scales = (
            as_sizes(scale_factor, n)
            if isinstance(scale_factor, int)
            else (
                (scale_factor,) * n if isinstance(scale_factor, float) else scale_factor
            )
        )
        size = [int(length * s) for length, s in zip(input.shape[2:], scales)]
    size = as_sizes(size, n)
    if mode == "nearest":
        if all(new % old == 0 for old, new in zip(input.shape[2:], size)):
            for axis, new in enumerate(size, start=2):
                input = jnp.repeat(input, new // input.shape[axis], axis=axis)
            return input
        raise NotImplementedError("nearest neighbours at other than whole factors")
    if align_corners or antialias or mode == "bicubic":
        raise NotImplementedError(
            "images of other sizes with aligned corners or cubic curves"
        )
    return jax.image.resize(
        input, (*input.shape[:2], *size), "linear", antialias=antialias
    )


@lowering()
def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    r = upscale_factor
    *batch, channels, height, width = input.shape
    parts = input.reshape((*batch, channels // r**2, r, r, height, width))
    moved = jnp.moveaxis(parts, (-4, -3), (-3, -1))
    return moved.reshape((*batch, channels // r**2, height * r, width * r))
