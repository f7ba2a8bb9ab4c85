"""Operations that take shapes as operands, where these are constants or symbolic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from jax import lax

from untrace.readers.stablehlo.calls import Call, pairs
from untrace.readers.stablehlo.shapes import broadcast_in_dim, convolution, gather, iota

Template = Callable[..., Any]


DATA_OPERANDS = {
    "stablehlo.dynamic_broadcast_in_dim": 1,
    "stablehlo.dynamic_conv": 2,
    "stablehlo.dynamic_gather": 2,
    "stablehlo.dynamic_iota": 0,
    "stablehlo.dynamic_pad": 2,
    "stablehlo.dynamic_reduce_window": 2,
    "stablehlo.dynamic_reshape": 1,
    "stablehlo.real_dynamic_slice": 1,
    "shape_assertion": 0,
}
"""How many operands are arrays; the others say shapes, and are asked of the `Call`."""


def dynamic_broadcast_in_dim(call: Call, x: Any) -> Any:
    """State a broadcast to a shape that the result has, too."""
    call.ignore("known_expanding_dimensions", "known_nonexpanding_dimensions")
    return broadcast_in_dim(call.shaped(1), x)


def dynamic_iota(call: Call) -> Any:
    """State an array of indices."""
    return iota(call.shaped(0))


def dynamic_reshape(call: Call, x: Any) -> Any:
    """State a reshape."""
    return lax.reshape(x, call.shaped(1).shape)


def dynamic_pad(call: Call, x: Any, value: Any) -> Any:
    """State a padding by amounts that are operands."""
    return lax.pad(x, value, list(zip(*(call.constant(i) for i in (2, 3, 4)))))


def real_dynamic_slice(call: Call, x: Any) -> Any:
    """State a slice between indices that are operands."""
    return lax.slice(x, *(call.constant(i) for i in (1, 2, 3)))


def dynamic_gather(call: Call, x: Any, indices: Any) -> Any:
    """State a gather of slices whose sizes are an operand."""
    return gather(_with(call, slice_sizes=tuple(call.constant(2))), x, indices)


def dynamic_conv(call: Call, x: Any, kernel: Any) -> Any:
    """State a convolution whose padding is an operand."""
    return convolution(_with(call, padding=tuple(pairs(call.constant(2)))), x, kernel)


def _with(call: Call, **attributes: Any) -> Call:
    """Return a call with more attributes, which are all understood."""
    call.ignore(*call.operation.attributes)
    told = {**call.operation.attributes, **attributes}
    return Call(replace(call.operation, attributes=told), "", lambda block: list)


STATIC_SHAPES: dict[str, Template] = {
    "stablehlo.dynamic_broadcast_in_dim": dynamic_broadcast_in_dim,
    "stablehlo.dynamic_conv": dynamic_conv,
    "stablehlo.dynamic_gather": dynamic_gather,
    "stablehlo.dynamic_iota": dynamic_iota,
    "stablehlo.dynamic_pad": dynamic_pad,
    "stablehlo.dynamic_reshape": dynamic_reshape,
    "stablehlo.real_dynamic_slice": real_dynamic_slice,
}
