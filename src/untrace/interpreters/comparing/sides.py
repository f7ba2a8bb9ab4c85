"""One of two programs that are compared, numbered so that equal equations are found.

What an equation is comes from the checker (`verification.graph`): the key of its
primitive, its params (sub-programs as what they compute), its context, the types of its
results and its effects. Both programs share one table of numbers, so that equations that
compute the same from the same inputs have one number (value numbering).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from untrace import jaxapi
from untrace.ir import Block
from untrace.verification.graph import Graph
from untrace.verification.keys import Key, KeyScope
from untrace.verification.parting import Node

INPUT, CONSTANT = -1, -2


class Head(NamedTuple):
    """All of an equation but its operands."""

    primitive: Key
    params: Key
    context: Key
    types: Key
    effects: Key


class Operand(NamedTuple):
    """What an operand is.

    `owner` is the index of the equation that made it, `INPUT` or `CONSTANT`; `position`
    counts the results of that equation or the inputs, and is the number of a constant.
    """

    owner: int
    position: int


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """A block, and what its equations are.

    Attributes:
      eqns: JAX's equations, in the order of those of the block.
      heads: All of each equation but its operands.
      operands: The operands of each equation.
      results: What the block returns.
      numbers: The number of each equation: what it computes.
      first: The first equation that computes the same as each does.
      live: Which equations a result or an effect needs.
      scope: The keys of its variables.
    """

    block: Block
    eqns: Sequence[Any]
    heads: list[Head]
    operands: list[tuple[Operand, ...]]
    results: tuple[Operand, ...]
    numbers: list[int]
    first: list[int]
    live: list[bool]
    scope: KeyScope

    def sequence(self) -> range:
        """The indices of all equations, in order."""
        return range(len(self.heads))


def read_side(block: Block, inputs: Sequence[int], graph: Graph) -> Side:
    """Number a block over inputs that have numbers.

    Args:
      block: What to read.
      inputs: The number of each input; those of two programs that are the same value
        have one number.
      graph: The table that both programs share.
    """
    body, consts = jaxapi.split_jaxpr(block.jaxpr)
    scope = KeyScope(None, dict(zip(body.constvars, consts)))
    scope.keys.update(zip([*_open_inputs(body, consts), *body.invars], inputs))
    places = {var: Operand(INPUT, i) for i, var in enumerate(scope.keys)}
    side = Side(block, body.eqns, [], [], (), [], [], [], scope)
    known: dict[int, int] = {}
    seen: Counter[Key] = Counter()
    for index, eqn in enumerate(body.eqns):
        numbers = tuple([graph.atom(atom, scope) for atom in eqn.invars])
        head = _head(eqn, graph, scope)
        key: Key = ("statement", head, numbers)
        if head.effects:  # each time it is something else
            seen[key] += 1
            key = (*key, seen[key])
        number = graph.number(key, Node(head, numbers))
        first = known.setdefault(number, index)
        for i, var in enumerate(eqn.outvars):
            scope.keys[var] = graph.number(
                ("result", i, number), Node(("result", i), (number,))
            )
            places[var] = Operand(index, i)
        side.heads.append(head)
        side.operands.append(_operands(eqn.invars, numbers, places))
        side.numbers.append(number)
        side.first.append(first)
    numbers = tuple([graph.atom(atom, scope) for atom in body.outvars])
    results = _operands(body.outvars, numbers, places)
    live = _live(side, results)
    return Side(
        block,
        body.eqns,
        side.heads,
        side.operands,
        results,
        side.numbers,
        side.first,
        live,
        scope,
    )


def input_count(block: Block) -> int:
    """How many inputs a block has, with the constants whose values are not known."""
    body, consts = jaxapi.split_jaxpr(block.jaxpr)
    return len(_open_inputs(body, consts)) + len(body.invars)


def _open_inputs(body: Any, consts: Sequence[Any]) -> list[Any]:
    return [] if consts else list(body.constvars)


def _head(eqn: Any, graph: Graph, scope: KeyScope) -> Head:
    return Head(
        graph.primitive(eqn.primitive),
        graph.params(eqn, scope),
        graph.context(eqn.ctx),
        tuple([graph.aval(var.aval) for var in eqn.outvars]),
        graph.effects(eqn.effects, scope) if eqn.effects else (),
    )


def _operands(
    atoms: Sequence[Any], numbers: Sequence[int], places: dict[Any, Operand]
) -> tuple[Operand, ...]:
    found: list[Operand] = []
    for atom, number in zip(atoms, numbers):
        is_literal = type(atom) is jaxapi.JaxprLiteral
        place = None if is_literal else places.get(atom)
        found.append(place or Operand(CONSTANT, number))
    return tuple(found)


def _live(side: Side, results: Sequence[Operand]) -> list[bool]:
    """Which equations a result or an effect needs."""
    live = [False] * len(side.heads)
    for operand in results:
        if operand.owner >= 0:
            live[operand.owner] = True
    for index in reversed(range(len(side.heads))):
        if not (live[index] or side.heads[index].effects):
            continue
        live[index] = True
        for operand in side.operands[index]:
            if operand.owner >= 0:
                live[operand.owner] = True
    return live
