"""Which value of one program is which of another, in all their loops and branches.

Plain calls are opened on both sides, so that a value is found whether or not it is
computed in a jitted function. Then the equations are matched as `untrace.diff` does, by
the data flow, and so are the sub-programs of those that are a pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from untrace import jaxapi
from untrace.capture import Captured
from untrace.interpreters.comparing.block_pairs import block_pairs, inner_inputs
from untrace.interpreters.comparing.compare import input_texts, paired_inputs
from untrace.interpreters.comparing.differences import Walk
from untrace.interpreters.comparing.matching import Matching
from untrace.interpreters.comparing.opening import may_be_opened
from untrace.interpreters.diverging.moments import (
    BRANCH,
    CONDITION,
    TURN,
    TURNS,
    Around,
    Site,
)
from untrace.ir import Atom, Block, Equation, Value, from_jaxpr, to_jaxpr
from untrace.ir.convert import params_of_jax
from untrace.lifting.blocks.inlining import renamed
from untrace.verification.equivalence import graph_of
from untrace.verification.graph import plain_call


def corresponding_sites(before: Captured, after: Captured) -> dict[Site, Site]:
    """Find the values of two programs that stand for each other.

    Args:
      before: The first program.
      after: The second program.

    Returns:
      For values of the first program those of the second.
    """
    with jaxapi.paused_collection(), jaxapi.deep_recursion():
        graph = graph_of(before.jaxpr, after.jaxpr)
        for captured in (after, before):  # effects are numbered in the whole program
            graph.program(captured.jaxpr)
        blocks = from_jaxpr(before.jaxpr), from_jaxpr(after.jaxpr)
        names = input_texts(before), input_texts(after)
        inputs = paired_inputs(names, [len(block.inputs) for block in blocks])
        walk = _Sites(Walk(graph, 0))
        walk.pair(_opened(blocks[0]), _opened(blocks[1]), inputs, (), ())
        return walk.found


class _Place(NamedTuple):
    """An equation of an opened block: where it is in the program as it was."""

    around: Around
    equation: Any


class _Opened(NamedTuple):
    """A block whose plain calls are opened.

    Attributes:
      places: Where each of its equations comes from.
    """

    block: Block
    places: list[_Place]


class _Sites:
    """Pairs the values of blocks and of their sub-programs."""

    def __init__(self, walk: Walk) -> None:
        self.found: dict[Site, Site] = {}
        self._walk = walk
        self._alive: list[Any] = []
        self._open: dict[int, _Opened] = {}

    def pair(
        self,
        before: _Opened,
        after: _Opened,
        inputs: Mapping[int, int],
        around: Around,
        around_other: Around,
    ) -> None:
        """Pair two blocks that stand at places which are known to be a pair."""
        self._alive += [before, after]
        found = self._walk.match_blocks(before.block, after.block, inputs)
        for index, other in _pairs(found):
            one, mate = before.places[index], after.places[other]
            here = (*around, *one.around), id(one.equation)
            there = (*around_other, *mate.around), id(mate.equation)
            for part in _parts(one.equation, mate.equation):
                self.found[Site(*here, part)] = Site(*there, part)
            if one.equation.primitive == mate.equation.primitive:
                self._inside(found, index, other, here, there)

    def _inside(
        self,
        found: Matching,
        index: int,
        other: int,
        here: tuple[Around, int],
        there: tuple[Around, int],
    ) -> None:
        eqn = found.before.block.equations[index]
        twin = found.after.block.equations[other]
        for name in eqn.params:
            for k, (step, block, mate) in enumerate(block_pairs(eqn, twin, name)):
                if name == "jaxprs" and not step.endswith(".solve"):
                    continue  # of a linear solve the solver alone is evaluated
                inputs = inner_inputs(found, index, other, name, block, mate)
                part = _part_of(eqn, name, k)
                self.pair(
                    self._opened(block),
                    self._opened(mate),
                    inputs,
                    (*here[0], (here[1], part)),
                    (*there[0], (there[1], part)),
                )

    def _opened(self, block: Block) -> _Opened:
        known = self._open.get(id(block.jaxpr))
        if known is None:
            known = self._open[id(block.jaxpr)] = _opened(from_jaxpr(block.jaxpr))
            self._alive.append(block)
        return known


def _pairs(found: Matching) -> Iterator[tuple[int, int]]:
    """Yield equations that stand for each other, one for each of the first program.

    Where a program computes a value more often, each of them is that value.
    """
    first: dict[int, int] = {}
    for index, number in enumerate(found.after.numbers):
        first.setdefault(number, index)
    for index, number in enumerate(found.before.numbers):
        other = found.partner.get(index)
        if other is None and number in found.values:
            other = first.get(found.values[number])
        if other is not None:
            yield index, other


def _parts(eqn: Any, mate: Any) -> Iterator[int | str]:
    """Yield what two equations both have: results, and what they decide."""
    yield from range(min(len(eqn.outvars), len(mate.outvars)))
    if eqn.primitive == mate.primitive:
        decided = {"cond": BRANCH, "while": TURNS}.get(eqn.primitive.name)
        if decided is not None:
            yield decided


def _part_of(eqn: Equation, name: str, number: int) -> int | str | None:
    if eqn.name == "cond":
        return number
    if eqn.name == "while":
        return CONDITION if name == "cond_jaxpr" else TURN
    return TURN if eqn.name == "scan" else None


def _opened(block: Block) -> _Opened:
    """Put what plain calls compute in their places."""
    eqns = jaxapi.split_jaxpr(block.jaxpr)[0].eqns
    whole = _Opened(block, [_Place((), eqn) for eqn in eqns])
    if not may_be_opened(block) or not any(map(_called, eqns, block.equations)):
        return whole
    opener = _Opener()
    outputs = opener.add(block, {}, ())
    if opener.constants and not block.constants and not block.is_closed:
        return whole  # it has no place for constants
    made = replace(
        block,
        constants=(*block.constants, *opener.constants),
        equations=tuple(opener.equations),
        outputs=tuple(outputs),
    )
    # The checker reads jaxprs; sub-programs stay those that they are.
    return _Opened(from_jaxpr(to_jaxpr(made)), opener.places)


def _called(eqn: Any, equation: Equation) -> Block | None:
    """Return what an equation calls, if the call itself means nothing."""
    jaxpr = plain_call(eqn)
    if jaxpr is None:
        return None
    found = [p for p in equation.params.values() if isinstance(p, Block)]
    return found[0] if len(found) == 1 and may_be_opened(found[0]) else None


class _Opener:
    """Lists the equations of a block and of what it calls, and where they come from."""

    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self.places: list[_Place] = []
        self.constants: list[tuple[Value, Any]] = []

    def add(self, block: Block, env: dict[Atom, Atom], around: Around) -> list[Atom]:
        """Add the equations of a block, over what stands for its values.

        Returns:
          What stands for its outputs.
        """
        eqns = jaxapi.split_jaxpr(block.jaxpr)[0].eqns
        for eqn, equation in zip(eqns, block.equations, strict=True):
            operands = tuple([env.get(atom, atom) for atom in equation.operands])
            inner = _called(eqn, equation)
            if inner is None:
                params = params_of_jax(equation.params)
                self.equations.append(
                    replace(equation, operands=operands, params=params)
                )
                self.places.append(_Place(around, eqn))
                continue
            body = renamed(inner, dict(zip(inner.inputs, operands)))
            self.constants += body.constants
            # `renamed` leaves the inputs as they are; the equations read what is given.
            outputs = self.add(body, {}, (*around, (id(eqn), None)))
            for result, atom in zip(equation.results, outputs):
                if result is not None:
                    env[result] = atom
        return [env.get(atom, atom) for atom in block.outputs]
