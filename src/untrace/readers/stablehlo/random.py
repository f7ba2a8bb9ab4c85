"""Random bits behind calls of `threefry2x32`: functions of the key.

The four operands of such a call are the halves of a key and of counters. What is drawn
is known by its shape, and by what is made of the two halves that come out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.jaxapi.module_types import Operation, TensorType
from untrace.readers.stablehlo.identities import CALLS
from untrace.readers.stablehlo.numbering import Numbering

KEY = TensorType((2,), np.dtype(np.uint32))
BITS = (jnp.uint32, jnp.uint8, jnp.uint16, jnp.uint64)

Drawn = tuple[Any, Callable[..., list[Any]], tuple[int, ...]]


def draws(
    numbering: Numbering, operation: Operation, operands: tuple[int, ...]
) -> Iterator[Drawn]:
    """Yield functions of a key that a call may have been made for."""
    name = str(operation.attributes.get("callee", ""))
    if operation.name not in CALLS or not name.startswith("threefry2x32"):
        return
    kind = operation.results[0].type if operation.results else None
    halves = [_half(numbering, number, i) for i, number in enumerate(operands[:2])]
    if len(operands) != 4 or None in halves or halves[0] != halves[1]:
        return
    if not isinstance(kind, TensorType):
        return
    key, shape = halves[:1], kind.shape
    for dtype in BITS[: None if jaxapi.is_wide() else -1]:

        def bits(raw: Any, dtype: Any = dtype) -> list[Any]:
            return [jax.random.bits(_key(raw), shape, dtype)]

        yield ("bits", shape, dtype), bits, tuple(key)  # pyright: ignore

    def split(raw: Any) -> list[Any]:
        return [jax.random.key_data(jax.random.split(_key(raw), shape))]

    yield ("split", shape), split, tuple(key)  # pyright: ignore


def _key(raw: Any) -> Any:
    return jax.random.wrap_key_data(raw, impl="threefry2x32")


def _half(numbering: Numbering, number: int, index: int) -> int | None:
    """Return the key of which a number is the first or the second half."""
    scalar = numbering.made(number)
    if scalar is None or scalar.name != "stablehlo.reshape":
        return None
    part = numbering.made(scalar.operands[0])
    if part is None or part.name != "stablehlo.slice":
        return None
    (key,) = part.operands
    is_half = dict(part.attributes)["start_indices"] == ("tuple", ("int", str(index)))
    return key if is_half and numbering.type(key) == KEY else None
