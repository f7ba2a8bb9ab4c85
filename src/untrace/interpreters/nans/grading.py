"""How bad values are, and flags that say so, packed into words while a program runs.

0 is finite, 1 infinite, 2 NaN. Values of one shape share a word, with a bit or two for
each; what is exactly as bad as an operand needs none.

Also run by path, by Python installations without this package: it imports JAX alone.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

INFINITE, NAN = 1, 2
BITS = 32
"""Of the words that flags of several values are put together in."""

_SAME = frozenset(
    {
        "abs",
        "broadcast_in_dim",
        "copy",
        "neg",
        "reshape",
        "rev",
        "squeeze",
        "stop_gradient",
        "transpose",
    }
)
"""Primitives whose results are as bad as their operand."""

_SAME_NAN = frozenset(
    {
        "asinh",
        "atan",
        "cbrt",
        "ceil",
        "convert_element_type",
        "cosh",
        "erf",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "floor",
        "logistic",
        "round",
        "sinh",
        "square",
        "tanh",
    }
)
"""Those whose results have a NaN where their operand has one, and nowhere else. XLA on CPUs
does not always keep to that: in some fusions exp(NaN) is a number, in others it is not."""

_ARITHMETIC = frozenset({"add", "mul", "sub"})
"""The same holds for these, if the other operand is a finite number, and not 0."""


def same_badness(
    equation: Any,
    operands: Sequence[int],
    values: Sequence[Any],
    constants: Mapping[int, Any],
    level: int,
) -> int | None:
    """Return the operand that the result is exactly as bad as, if there is one.

    Args:
      equation: What is applied.
      operands: The numbers of its operands.
      constants: Those that are known, by number.
      level: From which grade on values are told apart.
    """

    def is_number(n: int) -> bool:
        """Whether a value is a finite constant other than 0."""
        if n not in constants or not is_inexact(constants[n]):
            return False
        constant = np.asarray(constants[n]).astype(np.complex128)
        return constant.size == 1 and bool(np.isfinite(constant) and constant != 0)

    name = equation.primitive.name
    if name in _SAME:
        return operands[0]
    if level < NAN or not operands or not is_inexact(values[operands[0]]):
        return None
    if name in _SAME_NAN or (name == "integer_pow" and equation.params["y"] > 0):
        return operands[0]
    if name in _ARITHMETIC and any(map(is_number, operands)):
        one, other = operands
        return other if is_number(one) else one
    return None


def groups(
    numbers: Iterable[int], values: Mapping[int, Any] | Sequence[Any], level: int
) -> list[list[int]]:
    """Put values of one shape together, in order, as many as have flags in a word.

    They are of one sharding and in one memory, too: JAX combines no others.
    """
    found: list[list[int]] = []
    last: dict[tuple[object, ...], list[int]] = {}
    for n in numbers:
        aval = getattr(values[n], "aval", None)
        sharding, memory = (
            getattr(aval, name, None) for name in ("sharding", "memory_space")
        )
        like = jnp.shape(values[n]), str(sharding), str(memory)
        if len(last.get(like, ())) % (BITS // _n_bits(level)) == 0:
            last[like] = []
            found.append(last[like])
        last[like].append(n)
    return found


def _n_bits(level: int) -> int:
    return 1 if level == NAN else 2


def packed(values: Sequence[Any], level: int, is_split: bool = False) -> Any:
    """Return u32[] with a bit for each of some values of one shape, or with two.

    They are put together element by element, in one pass with what computes the values:
    one reduction for each value would compute many of them again.

    Args:
      values: Some values of one shape.
      level: From which grade on they are told apart.
      is_split: Whether they may lie on several devices, where XLA reduces no words.
    """
    parts: list[Any] = []
    for i, value in enumerate(values):
        is_nan, is_infinite = _is_nan_or_infinite(value)
        at = i * _n_bits(level)
        parts.append(is_nan.astype(jnp.uint32) << at)
        if level != NAN:
            parts.append(is_infinite.astype(jnp.uint32) << (at + 1))
    word = functools.reduce(operator.or_, parts)
    axes = tuple(range(word.ndim))
    if not is_split:
        return jax.lax.reduce(word, np.uint32(0), jax.lax.bitwise_or, axes)
    places = np.arange(BITS, dtype=np.uint32)
    bits = (word[..., None] >> places & 1).astype(bool).any(axes)
    return (bits.astype(jnp.uint32) << places).sum(dtype=jnp.uint32)


def unpacked(
    groups: Iterable[Sequence[int]], words: Iterable[Any], level: int
) -> dict[int, int]:
    """Return the flags of values by number; of several devices a value has the worst."""
    found: dict[int, int] = {}
    for group, word in zip(groups, words):
        bits = int(np.bitwise_or.reduce(np.ravel(word)))
        for i, number in enumerate(group):
            pair = bits >> i * _n_bits(level)
            is_infinite = level != NAN and bool(pair & 2)
            found[number] = NAN if pair & 1 else INFINITE * is_infinite
    return found


def is_inexact(value: Any) -> bool:
    """Return whether a value can be infinite or NaN at all."""
    return jnp.issubdtype(jnp.result_type(value), jnp.inexact) and bool(jnp.size(value))


def badness(value: Any) -> Any:
    """Return u8[]: 0 if all elements are finite, 1 if some are infinite, 2 if one is NaN."""
    if not is_inexact(value):
        return jnp.uint8(0)
    is_nan, is_infinite = _is_nan_or_infinite(value)
    flags = is_nan.astype(jnp.uint8) * NAN + is_infinite.astype(jnp.uint8) * INFINITE
    return flags.max()


def grade(value: Any) -> int:
    """Return how bad a value is that is known, without compiling anything."""
    if not is_inexact(value):
        return 0
    array = np.asarray(value)
    if array.dtype.kind not in "fc":  # the small types of ml_dtypes
        array = array.astype(np.float32)
    if np.isnan(array).any():
        return NAN
    return INFINITE * bool(np.isinf(array).any())


def _is_nan_or_infinite(value: Any) -> tuple[Any, Any]:
    array = jnp.asarray(value)
    if array.dtype.itemsize == 1:  # not all backends compare the smallest types
        array = array.astype(jnp.float32)
    return jnp.isnan(array), jnp.isinf(array)
