"""The value on which all paths to a result join.

`exp(x) / (1 + exp(x))` is a function of `exp(x)` alone, although two equations compute it.
Equations that do the same with the same operands make one value: so the paths that lead to
a result are followed back from it, the last value first, until a single one is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from untrace.interpreters.inverse_rules.table import ELEMENTWISE
from untrace.interpreters.inverting.cells import Cell
from untrace.interpreters.inverting.network import IDENTITY, Node, maker_of


class Region(NamedTuple):
    """The equations between a value and a result.

    Attributes:
      input: The value, which no other unknown one goes around.
      nodes: Equations, each behind those whose results it needs; of those that do the
        same there is one.
      cells: Cells of the same value, by the first of them.
      first: The first cell of the same value, by cells.
    """

    input: Cell
    nodes: list[Node]
    cells: dict[Cell, list[Cell]]
    first: dict[Cell, Cell]


def joined(
    node: Node,
    is_followed: Callable[[Node], bool],
    maker: Callable[[Cell], Node | None] | None = None,
) -> Region | None:
    """Return the region between an equation's result and the nearest value before it.

    Args:
      node: The equation.
      is_followed: Whether the paths may lead through an equation.
      maker: The equation that makes a value, if it may have to be followed; by default
        elementwise ones.

    Returns:
      None if several paths end at equations that are not followed.
    """
    order = _ordered(node, maker or _elementwise_maker)
    first = _first_cells(order)
    makers = {cell: n for n in order for cell in n.results if first[cell] is cell}
    places = {cell: i for i, cell in enumerate(makers)}
    nodes = [node]
    front = {first.get(cell, cell) for cell in unknown(node)}
    while len(front) > 1:
        last = max(front, key=lambda cell: places.get(cell, -1))
        before = makers.get(last)
        if before is None or not is_followed(before):
            return None
        nodes.append(before)
        front -= set(before.results)
        front |= {first.get(cell, cell) for cell in unknown(before)}
    if not front:
        return None
    (cell,) = front
    cells: dict[Cell, list[Cell]] = {cell: [cell]}
    for each, one in first.items():
        if each is not one or each is not cell:
            cells.setdefault(one, []).append(each)
    return Region(cell, nodes[::-1], cells, first)


def unknown(node: Node) -> Iterable[Cell]:
    """Return the operands of an equation that are not known."""
    return [cell for cell in node.operands if not cell.is_known]


def _ordered(start: Node, maker: Callable[[Cell], Node | None]) -> list[Node]:
    """List the equations behind one, each behind those that it needs."""
    order: dict[Node, None] = {}
    todo = [start]
    while todo:
        makers = [maker(cell) for cell in unknown(todo[-1])]
        missing = [each for each in makers if each is not None and each not in order]
        if missing:
            todo += missing
        else:
            order[todo.pop()] = None
    return list(order)


def _elementwise_maker(cell: Cell) -> Node | None:
    node = maker_of(cell)
    if node is None or not (node.name in ELEMENTWISE or node.name == IDENTITY):
        return None
    return node


def _first_cells(order: list[Node]) -> dict[Cell, Cell]:
    """Return for each result the first one that is computed in the same way."""
    first: dict[Cell, Cell] = {}
    made: dict[Any, Cell] = {}
    for node in order:
        keys = tuple([_key(first.get(cell, cell)) for cell in node.operands])
        if node.name == IDENTITY and not node.operands[0].is_known:
            first[node.results[0]] = first.get(node.operands[0], node.operands[0])
            continue
        params = () if node.eqn is None else tuple(sorted(node.eqn.params.items()))
        for i, result in enumerate(node.results):
            try:
                first[result] = made.setdefault((node.name, params, keys, i), result)
            except TypeError:  # a param that has no hash: it is taken as another one
                first[result] = result
    return first


def _key(cell: Cell) -> Any:
    """Return what is equal for operands that are the same."""
    if cell.whole is None:
        return id(cell)
    values = cell.whole.concrete()
    if values is None or values.shape:
        return id(cell.whole)
    return str(values.dtype), values.tobytes()
