"""Reads and writes of mutable arrays, which print as `a[0:2] <- b` and `a[0] += b`."""

from __future__ import annotations

from typing import Any

from untrace.jaxapi import printed, unprinted
from untrace.readers.jaxprs.making import MakingBlock
from untrace.readers.jaxprs.syntax import Equation, Literal, Name, Slice
from untrace.readers.jaxprs.values import Sum


def access(eqn: Equation, block: MakingBlock) -> tuple[Any, list[Any], dict[str, Any]]:
    """Return the primitive, operands and params of a read or a write."""
    builder = block.builder
    name, *values = eqn.operands
    reference = block.operand(name, False, None)
    shape = getattr(reference.aval, "shape", None)
    if not hasattr(reference.aval, "inner_aval") or shape is None:
        builder.fail(f"`{name.text}` is no reference", name.at)
    indices = [_index(index, shape, eqn, block) for index in eqn.params["indices"]]
    content = reference.aval.inner_aval
    inputs = [reference, *(block.operand(value, False, content) for value in values)]
    try:
        operands, tree = unprinted.indexer_tree(indices, shape)
    except (TypeError, ValueError) as error:
        builder.fail(
            f"this is no index of {builder.short(reference.aval)}: {error}", eqn.at
        )
    atoms = [
        item if hasattr(item, "aval") else block.index_literal(item)
        for item in operands
    ]
    return printed.primitive_named(eqn.primitive), inputs + atoms, {"tree": tree}


def _index(
    items: list[Any], shape: tuple[int, ...], eqn: Equation, block: MakingBlock
) -> list[Any]:
    """Return one index: numbers, variables, and slices by start, size and step."""
    if len(items) != len(shape):
        n = len(shape)
        block.builder.fail(f"an index of {n} axes is expected", eqn.at)
    return [_item(item, size, block) for item, size in zip(items, shape)]


def _item(item: Any, size: int, block: MakingBlock) -> Any:
    if not isinstance(item, Slice):
        return block.operand(item, False, None)
    start, stop, *step = item.parts
    if isinstance(start, Name) and isinstance(stop, Sum):
        length = stop.other
        first = block.operand(start, False, None)
        if not isinstance(length, Literal):
            block.builder.fail("the size of this slice is not known", item.at)
        return first, length.value, _number(step[0], 1) if step else 1
    first, last = _number(start, 0), _number(stop, size)
    if first is None or last is None:
        block.builder.fail("this slice is not understood", item.at)
    stride = _number(step[0], 1) if step else 1
    return first, last - first, stride


def _number(atom: Any, otherwise: int) -> Any:
    """Return the number that a part of a slice is."""
    if atom is None:
        return otherwise
    is_number = isinstance(atom, Literal) and isinstance(atom.value, int)
    return atom.value if is_number else None
