"""Products of matrices, and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from untrace.readers.torch.lowerings.table import (
    LOWERINGS,
    kept_as,
    layer,
    lowered_function,
    lowering,
)


@lowered_function()
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    if bias is None:
        return input @ weight.T
    return input @ weight.T + bias


@lowered_function()
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    out = jnp.einsum("...i,oij,...j->...o", input1, weight, input2)
    return out if bias is None else out + bias


@lowering("matmul", "mm", "bmm", "mv", "dot")
def matmul(input: Any, other: Any) -> Any:
    return input @ other


LOWERINGS["__rmatmul__"] = lambda x, other: other @ x


@lowering("outer", "ger")
def outer(input: Any, vec2: Any) -> Any:
    return jnp.outer(input, vec2)


@lowering()
def einsum(equation: str, *operands: Any) -> Any:
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = tuple(operands[0])  # type: ignore[reportUnknownArgumentType]
    return jnp.einsum(equation, *operands)


@lowering()
def tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    return jnp.tensordot(a, b, dims)


@lowered_function("addmm", "addmv", "baddbmm")
def addmm(input: Any, mat1: Any, mat2: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    product = mat1 @ mat2 if alpha == 1 else alpha * (mat1 @ mat2)
    return (input if beta == 1 else beta * input) + product


@lowered_function("_grouped_mm")
def grouped_mm(
    mat_a: Any,
    mat_b: Any,
    offs: Any = None,
    bias: Any = None,
    out_dtype: Any = None,
) -> Any:
    if offs is None or mat_a.ndim != 2 or mat_b.ndim != 3:
        raise NotImplementedError("rows for groups of matrices only")
    if bias is not None or out_dtype is not None:
        raise NotImplementedError("`bias` and `out_dtype`")
    return jax.lax.ragged_dot(mat_a, mat_b, jnp.diff(offs, prepend=0))


@lowering()
def kron(input: Any, other: Any) -> Any:
    return jnp.kron(input, other)


@lowered_function()
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    length = jnp.linalg.norm(x1, axis=dim) * jnp.linalg.norm(x2, axis=dim)
    return jnp.sum(x1 * x2, axis=dim) / jnp.maximum(length, eps)


# ---- convolutions ---------------------------------------------------------------------


def as_sizes(value: Any, n: int) -> tuple[int, ...]:
    """One integer for each spatial axis."""
    if isinstance(value, int):
        return (value,) * n
    return tuple(value) * (n if len(value) == 1 else 1)


def _letters(n: int) -> tuple[str, str, str]:
    """The order of axes that torch has: batch, channels, space."""
    space = "DHW"[3 - n :]
    return f"NC{space}", f"OI{space}", f"NC{space}"


def _padding(padding: Any, n: int) -> Any:
    if isinstance(padding, str):
        return padding.upper()
    return [(size, size) for size in as_sizes(padding, n)]


def _one(value: Any) -> Any:
    """The integer that all spatial axes have, if it is one."""
    if isinstance(value, (tuple, list)) and len(set(value)) == 1:
        return value[0]
    return value


def _of_layer(parameter: Any) -> Any:
    return None if parameter is None else parameter.array


def _options(n: int, dilation: Any, groups: int) -> dict[str, Any]:
    """What a convolution is told beside its strides and padding."""
    options: dict[str, Any] = {}
    if set(as_sizes(dilation, n)) != {1}:
        options["rhs_dilation"] = as_sizes(dilation, n)
    if groups != 1:
        options["feature_group_count"] = groups
    return options


def _convolution(n: int) -> None:
    letters = _letters(n)

    def convolved(
        x: Any, weight: Any, bias: Any, stride: Any, padding: Any, options: Any
    ) -> Any:
        out = jax.lax.conv_general_dilated(
            x,
            weight,
            as_sizes(stride, n),
            _padding(padding, n),
            dimension_numbers=letters,
            **options,
        )
        return out if bias is None else out + bias.reshape((-1, *[1] * n))

    @kept_as(f"conv{n}d")
    def conv(
        x: Any, weight: Any, bias: Any, stride: Any, padding: Any, options: Any
    ) -> Any:
        return convolved(x, weight, bias, stride, padding, options)

    @kept_as(f"conv{n}d")
    def conv_layer(params: Any, x: Any, stride: Any, padding: Any, options: Any) -> Any:
        weight, bias = _of_layer(params.weight), _of_layer(params.bias)
        return convolved(x, weight, bias, stride, padding, options)

    @lowering(f"conv{n}d")
    def lowered(
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        options = _options(n, dilation, groups)
        is_single = input.ndim == n + 1
        x = input[None] if is_single else input
        out = conv(x, weight, bias, _one(stride), _one(padding), options)
        return out[0] if is_single else out

    @layer(f"Conv{n}d")
    def of_module(module: Any, x: Any) -> Any:
        if module.padding_mode != "zeros" or x.ndim == n + 1:
            return NotImplemented
        options = _options(n, module.dilation, module.groups)
        stride, padding = _one(module.stride), _one(module.padding)
        return conv_layer(module, x, stride, padding, options)


def _transposed_convolution(n: int) -> None:
    letters = _letters(n)
    transposed = letters[0], f"IO{letters[1][2:]}", letters[2]

    def convolved(
        x: Any, weight: Any, bias: Any, stride: Any, pads: Any, options: Any
    ) -> Any:
        groups = options.get("feature_group_count", 1)
        if groups != 1:
            split = weight.reshape((groups, -1, *weight.shape[1:]))
            weight = jnp.concatenate(list(split), axis=1)
        out = jax.lax.conv_general_dilated(
            x,
            jnp.flip(weight, tuple(range(2, n + 2))),
            (1,) * n,
            pads,
            lhs_dilation=as_sizes(stride, n),
            dimension_numbers=transposed,
            **options,
        )
        return out if bias is None else out + bias.reshape((-1, *[1] * n))

    @kept_as(f"conv_transpose{n}d")
    def conv_transpose(
        x: Any, weight: Any, bias: Any, stride: Any, pads: Any, options: Any
    ) -> Any:
        return convolved(x, weight, bias, stride, pads, options)

    @kept_as(f"conv_transpose{n}d")
    def conv_transpose_layer(
        params: Any, x: Any, stride: Any, pads: Any, options: Any
    ) -> Any:
        weight, bias = _of_layer(params.weight), _of_layer(params.bias)
        return convolved(x, weight, bias, stride, pads, options)

    def pads_of(weight: Any, padding: Any, extra: Any, dilation: Any) -> Any:
        sizes = zip(as_sizes(dilation, n), weight.shape[2:])
        reach = [d * (size - 1) for d, size in sizes]
        both = zip(reach, as_sizes(padding, n), as_sizes(extra, n))
        return [(r - p, r - p + more) for r, p, more in both]

    @lowering(f"conv_transpose{n}d")
    def lowered(
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Any:
        pads = pads_of(weight, padding, output_padding, dilation)
        options = _options(n, dilation, groups)
        return conv_transpose(input, weight, bias, _one(stride), pads, options)

    @layer(f"ConvTranspose{n}d")
    def of_module(module: Any, x: Any) -> Any:
        if x.ndim == n + 1:
            return NotImplemented
        extra, dilation = module.output_padding, module.dilation
        pads = pads_of(module.weight, module.padding, extra, dilation)
        options = _options(n, dilation, module.groups)
        return conv_transpose_layer(module, x, _one(module.stride), pads, options)


for _n in (1, 2, 3):
    _convolution(_n)
    _transposed_convolution(_n)


@lowering("pad")
def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: Any = 0) -> Any:
    pairs = list(zip(pad[::2], pad[1::2]))[::-1]
    widths = [(0, 0)] * (input.ndim - len(pairs)) + pairs
    if any(size < 0 for pair in pairs for size in pair):
        return jax.lax.pad(
            input, jnp.asarray(value or 0, input.dtype), [(*w, 0) for w in widths]
        )
    if mode == "constant":
        options = {"constant_values": value} if value else {}
        return jnp.pad(input, widths, **options)
    modes = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    return jnp.pad(input, widths, mode=modes[mode])
