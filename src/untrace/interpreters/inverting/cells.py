"""What is known of a value: all of it, nothing, or some of its elements.

Parts of a value become known one by one: slices that together cover it, the elements that
a mask lets pass. A `Cell` gathers such pieces and puts the value together when they cover
it, in the way in which a person would: as a concatenation if they lie side by side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from untrace.interpreters.inverting.lazy import Lazy

Box = tuple[slice, ...]
"""One slice with start, stop and positive step for each axis."""

Mask = np.ndarray[Any, Any]
"""A boolean array in the shape of the value."""


class Piece(NamedTuple):
    """Some elements of a value.

    Attributes:
      where: A box, whose elements `lazy` holds, or a mask; then `lazy` has the shape of
        the value, and anything in the elements outside.
      lazy: The elements.
    """

    where: Box | Mask
    lazy: Lazy


class Cell:
    """A value of the program and what is known of it.

    Attributes:
      aval: Its type.
      nodes: The equations that read it or make it.
      pieces: What is known of it, if not all is.
      mask: Which of its elements are known; None if none is, or all are.
      whole: The value, once all of it is known.
    """

    __slots__ = ("aval", "mask", "nodes", "pieces", "whole")

    def __init__(self, aval: Any) -> None:
        self.aval = aval
        self.nodes: list[Any] = []
        self.pieces: list[Piece] = []
        self.mask: Mask | None = None
        self.whole: Lazy | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value; () for what is no array."""
        return tuple(getattr(self.aval, "shape", ()))

    @property
    def size(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)

    @property
    def is_known(self) -> bool:
        """Whether all of it is known."""
        return self.whole is not None

    @property
    def is_touched(self) -> bool:
        """Whether any of it is known."""
        return self.whole is not None or self.mask is not None

    def known(self) -> Mask:
        """Which elements are known."""
        if self.is_known:
            return np.ones(self.shape, bool)
        return np.zeros(self.shape, bool) if self.mask is None else self.mask

    def learn(self, lazy: Lazy) -> bool:
        """Know the whole value; return whether that is news."""
        if self.is_known:
            return False
        self.whole = self._typed(lazy)
        self.mask, self.pieces = None, []
        return True

    def learn_part(self, where: Box | Mask, lazy: Lazy) -> int:
        """Know some elements; return how many of them are news."""
        if self.is_known:
            return 0
        mask = self.known().copy()
        before = int(mask.sum())
        mask[where] = True
        after = int(mask.sum())
        if after == before:
            return 0
        self.pieces.append(Piece(where, self._typed(lazy)))
        self.mask = mask
        if after == self.size:
            whole = assembled(self.pieces, self.aval)
            self.whole, self.mask, self.pieces = whole, None, []
        return after - before

    def part(self, box: Box) -> Lazy | None:
        """The elements of a box, if one piece holds them."""
        for piece in self.pieces:
            if isinstance(piece.where, tuple) and piece.where == box:
                return piece.lazy
        return None

    def filled(self) -> Lazy:
        """The value, with a harmless number in the elements that are not known."""
        if self.whole is not None:
            return self.whole
        return assembled(self.pieces, self.aval)

    def loose(self) -> Lazy:
        """The value, with any numbers in the elements that are not known."""
        if len(self.pieces) == 1 and not isinstance(self.pieces[0].where, tuple):
            return self.pieces[0].lazy
        return self.filled()

    def _typed(self, lazy: Lazy) -> Lazy:
        """Give what a rule computed the dtype of the value."""
        dtype = getattr(self.aval, "dtype", None)

        def typed(value: Any) -> Any:
            if dtype is None or getattr(value, "dtype", dtype) == dtype:
                return value
            return jax.lax.convert_element_type(value, dtype)

        return Lazy(typed, [lazy])


def full_box(shape: Sequence[int]) -> Box:
    """Return the box of all elements."""
    return tuple(slice(0, n, 1) for n in shape)


def _fill(aval: Any) -> Any:
    """A number at which nearly every function and its derivative are finite."""
    is_inexact = jnp.issubdtype(aval.dtype, jnp.inexact)
    return jnp.full(aval.shape, 0.5 if is_inexact else 0, aval.dtype)


def assembled(pieces: Sequence[Piece], aval: Any) -> Lazy:
    """Put pieces together; elements that none has are filled."""
    shape = tuple(aval.shape)
    lazies = [piece.lazy for piece in pieces]
    for piece in reversed(pieces):
        if _covers(piece.where, shape):
            return piece.lazy
    places = [piece.where for piece in pieces]
    boxes = [where for where in places if isinstance(where, tuple)]
    if len(boxes) == len(places):
        axis = _only_axis(boxes, shape)
        if axis is not None:
            sides = [box[axis] for box in boxes]
            order = sorted(range(len(sides)), key=lambda i: sides[i].start)
            if _lie_side_by_side([sides[i] for i in order], shape[axis]):
                return Lazy(
                    lambda *values: jnp.concatenate([values[i] for i in order], axis),
                    lazies,
                )
            if _interleave([sides[i] for i in order], shape[axis]):
                return Lazy(
                    lambda *values: jnp.stack(
                        [values[i] for i in order], axis + 1
                    ).reshape(shape),
                    lazies,
                )

    known = np.zeros(shape, bool)
    for where in places:
        known[where] = True
    is_covered = bool(known.all())

    def put_together(*values: Any) -> Any:
        whole: Any = None
        for where, value in zip(places, values):
            if isinstance(where, tuple):
                whole = _fill(aval) if whole is None else whole
                whole = whole.at[where].set(value)
            else:
                if whole is None and is_covered:
                    whole = value
                    continue
                rest = _fill(aval) if whole is None else whole
                whole = jnp.where(where, value, rest)
        return _fill(aval) if whole is None else whole

    return Lazy(put_together, lazies)


def _covers(where: Box | Mask, shape: tuple[int, ...]) -> bool:
    if isinstance(where, tuple):
        return where == full_box(shape)
    return bool(where.all())


def _only_axis(boxes: Sequence[Box], shape: tuple[int, ...]) -> int | None:
    """Return the only axis along which boxes are not the whole value."""
    full = full_box(shape)
    axes = {i for box in boxes for i, each in enumerate(box) if each != full[i]}
    return axes.pop() if len(axes) == 1 else None


def _lie_side_by_side(sides: Sequence[slice], size: int) -> bool:
    ends = [0, *[side.stop for side in sides]]
    return (
        all(side.step == 1 for side in sides)
        and all(side.start == end for side, end in zip(sides, ends))
        and ends[-1] == size
    )


def _interleave(sides: Sequence[slice], size: int) -> bool:
    n = len(sides)
    return size % n == 0 and all(
        side.start == i and side.step == n and side.stop > size - n
        for i, side in enumerate(sides)
    )
