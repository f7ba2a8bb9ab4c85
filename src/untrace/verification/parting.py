"""Where two numbered programs part: found from the results upwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from untrace.verification import difference
from untrace.verification.difference import Difference
from untrace.verification.keys import Key


class Node(NamedTuple):
    """One numbered value.

    `body` and `position` say where its equation stands; `body` is None for inputs and
    constants, which `text` describes.
    """

    head: Key
    operands: tuple[int, ...]
    body: Any = None
    position: int = 0
    text: str = ""


class Summary(NamedTuple):
    """A whole program: input types, numbers of effects and results, and notes."""

    inputs: tuple[Key, ...]
    effects: tuple[int, ...]
    results: tuple[int, ...]
    body: Any
    notes: tuple[str, ...]


def find_difference(
    nodes: Sequence[Node], first: Summary, second: Summary
) -> Difference | None:
    """Return the first place where two programs part, or None if there is none."""
    if first.inputs != second.inputs:
        texts = [difference.render_inputs(s.body) for s in (first, second)]
        return Difference("", (), texts[0], texts[1], "inputs differ")
    for what in ("effects", "results"):
        mine, theirs = getattr(first, what), getattr(second, what)
        for number, other in zip(mine, theirs):
            if number != other:
                return _descend(nodes, number, other)
        if len(mine) != len(theirs):
            texts = [difference.render_results(s.body) for s in (first, second)]
            reason = f"{len(mine)} and {len(theirs)} {what}"
            return Difference("", (), texts[0], texts[1], reason)
    return None


def _descend(
    nodes: Sequence[Node], number: int, other: int, around: tuple[Any, ...] = ()
) -> Difference:
    """Follow what differs, operands and sub-programs, to the equation that does itself.

    `around` are the expected equations in whose sub-programs the two values are.
    """
    while True:
        node, mate = nodes[number], nodes[other]
        if node.head != mate.head or len(node.operands) != len(mate.operands):
            break
        pairs = [(a, b) for a, b in zip(node.operands, mate.operands) if a != b]
        if not pairs:
            break
        following = nodes[pairs[0][0]], nodes[pairs[0][1]]
        if not all(n.body is not None or n.head[0] == "result" for n in following):
            break
        number, other = pairs[0]
    node, mate = (_with_equation(nodes, n) for n in (node, mate))
    here = (*around, *([] if node.body is None else [node.body.eqns[node.position]]))
    inner = _different_bodies(node.head, mate.head)
    if inner is not None and nodes[inner[0]].head == nodes[inner[1]].head:
        return _descend(nodes, *inner, here)
    indices = (node.position,) if node.body is not None else ()
    equation = None if mate.body is None else mate.body.eqns[mate.position]
    return Difference(
        "data flow",
        indices,
        _text(node),
        _text(mate),
        _reason(node, mate),
        equation,
        here,
    )


def _different_bodies(key: Key, other: Key) -> tuple[int, int] | None:
    """Find the sub-programs in two keys if these differ in nothing before them."""
    if not (isinstance(key, tuple) and isinstance(other, tuple)):
        return None
    if len(key) != len(other):  # pyright: ignore[reportUnknownArgumentType]
        return None
    is_body = len(key) == 2 and key[0] == other[0] == "jaxpr"  # pyright: ignore[reportUnknownArgumentType]
    if is_body and type(key[1]) is type(other[1]) is int and key != other:
        return key[1], other[1]
    for part, mate in zip(key, other):
        if part != mate:
            return _different_bodies(part, mate)
    return None


def _with_equation(nodes: Sequence[Node], node: Node) -> Node:
    return nodes[node.operands[0]] if node.head[0] == "result" else node


def _text(node: Node) -> str:
    if node.head[0] == "body":
        return f"a sub-program or rule of {len(node.operands) - node.head[2]} results"
    return (
        node.text
        if node.body is None
        else difference.render_equation(node.body, node.position)
    )


def _reason(node: Node, mate: Node) -> str:
    if node.body is None or mate.body is None:
        return "computed differently"
    if node.head[0] != mate.head[0]:
        return "primitive differs"
    names = ("primitives", "params", "contexts", "types of results", "effects", "calls")
    for name, mine, theirs in zip(names, node.head, mate.head):
        if mine != theirs:
            return f"{name} differ"
    return "operands differ"
