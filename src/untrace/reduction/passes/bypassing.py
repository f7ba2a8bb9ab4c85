"""Replace the result of an equation by another value that is at hand.

An operand of the same type comes first, then any value known before (but where a value
is wrong, since that comes through operands); inside sub-programs, where a value cannot be
made an input, zeros and ones too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, Literal, Value
from untrace.reduction.applying import apply
from untrace.reduction.edits import Edits, Held, Substitute
from untrace.reduction.program import Program, open_blocks
from untrace.reduction.search import Search
from untrace.reduction.values import is_holdable

MAX_OTHERS = 4
"""Values of the same type that are tried beside the operands."""


def bypass(search: Search) -> None:
    """Bypass single equations, the last first, as long as that helps."""
    is_any = not search.judge.keep.depends_on_values
    while search.first(_bypassed(search.best, is_any)):
        pass


def _bypassed(program: Program, is_any: bool) -> Iterator[Program | None]:
    for block in open_blocks(program.block):
        known = _known_before(block)
        for eqn in reversed(block.equations):
            others = known[eqn] if is_any else []
            for choice in _choices(eqn, others, block is not program.block):
                yield apply(program, Edits(replaced=choice))
            if eqn.effects and all(result is None for result in eqn.results):
                yield apply(program, Edits(dropped=frozenset([eqn])))


def _known_before(block: Block) -> dict[Equation, list[Value]]:
    values = list(block.inputs)
    known: dict[Equation, list[Value]] = {}
    for eqn in block.equations:
        known[eqn] = list(values)
        values += [result for result in eqn.results if result is not None]
    return known


def _choices(
    eqn: Equation, before: list[Value], is_inside: bool
) -> Iterator[dict[Value, Substitute]]:
    """List what may stand for all results of an equation, one choice after the other."""
    results = [result for result in eqn.results if result is not None]
    if not results:
        return
    options = [_substitutes(eqn, result, before, is_inside) for result in results]
    if not all(options):
        return
    for i in range(max(len(choices) for choices in options)):
        yield {
            result: choices[min(i, len(choices) - 1)]
            for result, choices in zip(results, options)
        }


def _substitutes(
    eqn: Equation, result: Value, before: list[Value], is_inside: bool
) -> list[Substitute]:
    operands = [atom for atom in eqn.operands if _is_like(atom, result)]
    others = [v for v in reversed(before) if _is_like(v, result) and v not in operands]
    found: list[Substitute] = [*dict.fromkeys(operands), *others[:MAX_OTHERS]]
    if is_inside and is_holdable(result.aval):
        found += _constants(result.aval)
    return found


def _is_like(atom: Atom, result: Value) -> bool:
    return not isinstance(atom, Literal) and jaxapi.same_type(atom.aval, result.aval)


def _constants(aval: Any) -> list[Substitute]:
    """Return zeros and ones; a scalar is a literal, so that it counts as no array."""
    if jaxapi.is_key(aval):
        return []
    if aval.shape == ():
        numbers = [np.zeros((), aval.dtype)[()], np.ones((), aval.dtype)[()]]
        return [Literal(number, aval) for number in numbers]
    return [
        Held(np.zeros(aval.shape, aval.dtype)),
        Held(np.ones(aval.shape, aval.dtype)),
    ]
