"""Write shapes and dtypes as those of arrays.

`jnp.zeros(x.shape, x.dtype)` is written so where the program has it so.
`jax.tree.map(lambda x: x.reshape((-1, *x.shape[2:])), batch)` gives every leaf another
shape, so its runs have several texts as long as the shapes are numbers. Once they differ,
they are written again with the last axes of a leaf in place of the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from untrace.lifting.recorded.building import (
    attribute,
    call,
    display,
    starred,
    without_lead,
)
from untrace.lifting.recorded.naming.values import is_array
from untrace.lifting.recorded.numbers.formulas import shape_of
from untrace.lifting.recorded.terms import Term
from untrace.lifting.recorded.tree import Tail
from untrace.lifting.recorded.writer import Writer
from untrace.lifting.spelling.limits import limit_of
from untrace.optional import gives, optional
from untrace.recovery.limits import LIMIT
from untrace.recovery.record import Body, ShapePart


def tails(runs: Sequence[Body]) -> Iterator[Tail]:
    """Yield the ways to write shapes in a function of leaves."""
    leaves = [leaf for run in runs for leaf in run.parameters.values()]
    leaves = [leaf for leaf in leaves if is_array(leaf)]
    for first in range(max((leaf.ndim for leaf in leaves), default=0)):
        yield Tail(first, leaves)


@optional(gives(None))
def tail_term(shape: Any, writer: Writer) -> Term | None:
    """Write `(-1, *x.shape[2:])`, if that is a shape in the function being written."""
    if type(shape) not in (tuple, list):
        return None
    spelled, tail = _spelled_shape(shape, writer), writer.program.tail
    items = shape_items(shape, writer) if spelled is None else []
    if items:
        is_part = len(items) == 1  # `x.shape[1:]`
        return without_lead(items[0]) if is_part else display("()", items)
    if spelled is not None or tail is None:
        return spelled
    for leaf in tail.leaves:
        rest = leaf.shape[tail.first :]
        found = writer.values.find(id(leaf))
        n_own = len(shape) - len(rest)
        if found is None or n_own < 0 or tuple(shape[n_own:]) != rest:
            continue
        axes = f"[{tail.first}:]" if tail.first else ""
        last = attribute(writer.ref(found), f"shape{axes}")
        if not n_own:
            return last
        return display("()", [*map(writer.value, shape[:n_own]), starred(last)])
    return None


def _spelled_shape(shape: Sequence[Any], writer: Writer) -> Term | None:
    """Write `x.shape`, if the user's code has it in the call."""
    return _attribute("shape", tuple(shape), writer)


def shape_items(shape: Sequence[Any], writer: Writer) -> list[Term]:
    """The items of `(*x.shape[:-1], n)`, if the user's code has it in the call."""
    item = writer.program.item
    parts = [
        part
        for part in (item.shape_parts if item is not None else ())
        if len(shape) >= part.position + len(part.sizes)
        and tuple(shape[part.position :][: len(part.sizes)]) == part.sizes
        and writer.find(id(part.array)) is not None
    ]
    items: list[Term] = []
    position = 0
    for part in parts:
        if part.position < position:
            return []  # those of two shapes
        items += map(writer.value, shape[position : part.position])
        items.append(_star(part, writer))
        position = part.position + len(part.sizes)
    return [*items, *map(writer.value, shape[position:])] if items else []


def _star(part: ShapePart, writer: Writer) -> Term:
    found = writer.find(id(part.array))
    assert found is not None
    axes = shape_of(writer.ref(found), (part.start, part.stop))
    return starred(axes)


@optional(gives(None))
def dtype_term(dtype: Any, writer: Writer) -> Term | None:
    """Write `x.dtype`, if the user's code has it in the call."""
    return _attribute("dtype", dtype, writer)


@optional(gives(None))
def limit_term(value: Any, writer: Writer) -> Term | None:
    """Write `jnp.finfo(x.dtype).min`, if the user's code has it in the call."""
    limit = (
        limit_of(value) if any(n == LIMIT for n, _ in writer.program.shaped) else None
    )
    if limit is None:
        return None
    dtype = _attribute("dtype", limit[0], writer, LIMIT)
    finfo = Term([f"{writer.program.lifter.imports.module('jax.numpy')}.finfo"])
    return dtype and attribute(call(finfo, [dtype]), limit[1])


def _attribute(
    name: str, value: Any, writer: Writer, given_as: str = ""
) -> Term | None:
    for word, array in writer.program.shaped:
        if word != (given_as or name) or getattr(array, name) != value:
            continue
        found = writer.find(id(array))
        if found is not None:
            return attribute(writer.ref(found), name)
    return None


@optional(gives(None))
def reshaped_terms(sizes: Sequence[Any], writer: Writer) -> list[Term] | None:
    """Write the sizes of `x.reshape(...)`, which may be one tuple, in the same way."""
    is_tuple = len(sizes) == 1 and isinstance(sizes[0], (tuple, list))
    if not is_tuple and (items := shape_items(sizes, writer)):
        return items
    term = tail_term(sizes[0] if is_tuple else tuple(sizes), writer)
    return None if term is None else [term]
