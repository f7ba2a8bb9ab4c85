"""Products of matrices, and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from untrace.readers.torch.lowerings.table import (
    LOWERINGS,
    kept,
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


def _convolution(n: int) -> None:
    letters = _letters(n)

    @kept
    def conv(
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
        if bias is None:
            return out
        return out + bias.reshape((-1, *[1] * n))

    def lowered(
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        options: dict[str, Any] = {}
        if set(as_sizes(dilation, n)) != {1}:
            options["rhs_dilation"] = as_sizes(dilation, n)
        if groups != 1:
            options["feature_group_count"] = groups
        is_single = input.ndim == n + 1
        x = input[None] if is_single else input
        out = conv(x, weight, bias, _one(stride), _one(padding), options)
        return out[0] if is_single else out

    _rename(conv, f"conv{n}d")
    lowering(f"conv{n}d")(lowered)


def _rename(function: Any, name: str) -> None:
    function.__name__ = function.__qualname__ = name
    function.__code__ = function.__code__.replace(co_name=name, co_qualname=name)
    kept(function)


def _transposed_convolution(n: int) -> None:
    letters = _letters(n)
    transposed = letters[0], f"IO{letters[1][2:]}", letters[2]

    @kept
    def conv_transpose(
        x: Any, weight: Any, bias: Any, stride: Any, pads: Any, options: Any
    ) -> Any:
        out = jax.lax.conv_general_dilated(
            x,
            jnp.flip(weight, tuple(range(2, n + 2))),
            (1,) * n,
            pads,
            lhs_dilation=as_sizes(stride, n),
            dimension_numbers=transposed,
            **options,
        )
        if bias is None:
            return out
        return out + bias.reshape((-1, *[1] * n))

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
        dilations = as_sizes(dilation, n)
        reach = [d * (k - 1) for d, k in zip(dilations, weight.shape[2:])]
        pads = [
            (r - p, r - p + extra)
            for r, p, extra in zip(
                reach, as_sizes(padding, n), as_sizes(output_padding, n)
            )
        ]
        options: dict[str, Any] = {}
        if set(dilations) != {1}:
            options["rhs_dilation"] = dilations
        if groups != 1:
            options["feature_group_count"] = groups
            split = weight.reshape((groups, -1, *weight.shape[1:]))
            weight = jnp.concatenate(list(split), axis=1)
        return conv_transpose(input, weight, bias, _one(stride), pads, options)

    _rename(conv_transpose, f"conv_transpose{n}d")
    lowering(f"conv_transpose{n}d")(lowered)


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
