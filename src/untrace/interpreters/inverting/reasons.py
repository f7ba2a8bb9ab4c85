"""Why a program cannot be inverted: the equation, its line, and what is lost in it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from untrace import jaxapi
from untrace.interpreters.inverting.cells import Cell
from untrace.interpreters.inverting.network import Network, Node
from untrace.interpreters.inverting.step import PART, TWO, WAITS


def explained(network: Network, wanted: Sequence[Cell], names: Sequence[str]) -> str:
    """Say why inputs did not become known.

    Args:
      network: The program, as far as it could be solved.
      wanted: The inputs.
      names: What they are called.
    """
    missing = [(cell, name) for cell, name in zip(wanted, names) if not cell.is_known]
    cell, name = missing[0]
    if not cell.nodes or all(node.is_open for node in cell.nodes):
        return f"the input `{name}` reaches no result: information lost"
    node, why = _blamed(network, cell)
    if node is None:
        return f"the input `{name}` cannot be told from the results: information lost"
    return f"{described(node)}: {why}."


def _blamed(network: Network, cell: Cell) -> tuple[Node | None, str]:
    """Find the equation that stops what is known from spreading towards an input.

    Its results are known and its operands are not. One that says what is lost tells more
    than one that has two unknowns.
    """
    behind = _reached(cell)
    if cell.mask is not None:
        shown, size = int(cell.mask.sum()), cell.size
        readers = [node for node in cell.nodes if node in behind]
        for node in readers:
            if node.refusal and node.refusal not in (TWO, WAITS, PART):
                return node, node.refusal
        if readers:
            return readers[0], (
                f"information lost: {size - shown} of {size} elements of its operand "
                "reach no result"
            )
    stuck = [
        node
        for node in behind
        if any(each.is_touched for each in node.results) and not node.is_spent
    ]
    told = [node for node in stuck if node.refusal and node.refusal not in (TWO, WAITS)]
    for node in told:
        return node, node.refusal
    for node in stuck:
        if node.refusal:
            return node, node.refusal
        return node, (
            f"there is no inverse rule for `{node.name}`; write one with "
            "`untrace.register_inverse`"
        )
    if behind:
        return behind[0], "information lost: what it makes reaches no result"
    return None, ""


def _reached(cell: Cell) -> list[Node]:
    """List the equations that an input reaches through values that are not known."""
    found: dict[Node, None] = {}
    seen = {cell}
    todo = [cell]
    while todo:
        here = todo.pop(0)
        for node in here.nodes:
            if here in node.operands and node not in found and not node.is_open:
                found[node] = None
                for result in node.results:
                    if not result.is_known and result not in seen:
                        seen.add(result)
                        todo.append(result)
    return [node for node in found if node.eqn is not None] or list(found)


def described(node: Node) -> str:
    """Describe an equation: its primitive, its types, and the line that it comes from."""
    if node.eqn is None:
        return "two values that are one"
    inputs = ", ".join(_type(cell.aval) for cell in node.operands)
    outputs = ", ".join(_type(cell.aval) for cell in node.results)
    place = _place(node)
    return f"cannot invert `{node.name}` {inputs} -> {outputs}{place}"


def _type(aval: Any) -> str:
    return jaxapi.short_type(aval)


def _place(node: Node | None) -> str:
    """Return the line of an equation, or of the call that it is in."""
    while node is not None:
        if node.eqn is not None:
            found = jaxapi.innermost(node.eqn.source_info)
            if found is not None:
                return f" ({os.path.basename(found[0])}:{found[1]})"
        node = node.parent
    return ""
