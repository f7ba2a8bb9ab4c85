"""Cut down the bodies of sub-programs that the failure needs.

Inside a body no value can become an input. What is cut there is replaced by a value of
the same type that is at hand, by ones or False, or by what it held in the first step, as
a constant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from untrace import jaxapi
from untrace.ir import Block, Equation, Literal, Value, sub_blocks
from untrace.reduction.applying import apply
from untrace.reduction.delta import minimize
from untrace.reduction.edits import Edits, Held, Substitute
from untrace.reduction.passes.pointing import aimed_at
from untrace.reduction.program import Program, open_blocks
from untrace.reduction.search import Search
from untrace.reduction.values import Recorder, is_holdable, made_up


def cut_inside(search: Search) -> None:
    """Cut blocks of equations out of every sub-program, the largest first."""
    done: set[int] = set()
    while True:
        blocks = [
            b for b in open_blocks(search.best.block) if b is not search.best.block
        ]
        sizes = sorted({len(b.equations) for b in blocks} - done, reverse=True)
        if not sizes or sizes[0] < 1:
            return
        done.add(sizes[0])
        block = next(b for b in blocks if len(b.equations) == sizes[0])
        _cut(search, block)


def _cut(search: Search, block: Block) -> None:
    base = search.best
    values = _Inside(search).values(block)

    def suffices(kept: list[Equation]) -> bool:
        return search.first(
            apply(base, Edits(replaced=replaced, dropped=dropped))
            for replaced, dropped in _variants(block, kept, values)
        )

    aims = list(aimed_at(search, block))
    if not aims and suffices([]):
        return
    kept = list(block.equations)
    for near in aims:
        if len(near) < len(kept) and suffices(near):
            kept = near
            break
    minimize(kept, suffices)


def _variants(
    block: Block, kept: Collection[Equation], values: dict[Value, Any]
) -> Iterator[tuple[dict[Value, Substitute], frozenset[Equation]]]:
    """Choose what stands for the results of the equations that go."""
    inside = set(kept)
    gone = [eqn for eqn in block.equations if eqn not in inside]
    dropped = frozenset(eqn for eqn in gone if eqn.effects)
    results = [r for eqn in gone for r in eqn.results if r is not None]
    if not all(is_holdable(result.aval) for result in results):
        return
    yield _at_hand(block, inside), dropped
    yield {r: Held(values.get(r, made_up(r.aval))) for r in results}, dropped


def _at_hand(block: Block, kept: Collection[Equation]) -> dict[Value, Substitute]:
    """Choose a value for each result of the equations that go.

    One of the same type that was computed last by what is kept, which nothing may need
    otherwise; or an input of the block.
    """
    known = list(block.inputs)[::-1]
    found: dict[Value, Substitute] = {}
    for eqn in block.equations:
        results = [r for r in eqn.results if r is not None]
        if eqn in kept:
            known += results
        else:
            found |= {r: _like(r, known) for r in results}
    return found


def _like(result: Value, known: list[Value]) -> Substitute:
    """Return the last known of the same type, or ones; False, which ends loops."""
    for value in reversed(known):
        if jaxapi.same_type(value.aval, result.aval):
            return value
    if jaxapi.is_key(result.aval):
        return Held(made_up(result.aval))
    ones = np.ones(result.aval.shape, result.aval.dtype)
    plain = np.zeros_like(ones) if ones.dtype == bool else ones
    return Literal(plain[()], result.aval) if plain.ndim == 0 else Held(plain)


class _Inside:
    """Values in the first step of sub-programs, recorded block by block."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.known: dict[Block, dict[Value, Any]] = {}

    def values(self, block: Block) -> dict[Value, Any]:
        """Return the values of the results in a block, as far as they can be had."""
        return self._find(self.search.best, block) or {}

    def _find(self, program: Program, wanted: Block) -> dict[Value, Any] | None:
        values = self._recorded(program)
        if program.block is wanted:
            return values
        known = {**dict(zip(program.block.inputs, program.values)), **values}
        for eqn in program.block.equations:
            for inner in sub_blocks(eqn):
                if not any(block is wanted for block in open_blocks(inner)):
                    continue
                inputs = _entering(eqn, inner, known)
                if inputs is None or inner.constants:
                    return None
                names = ("",) * len(inputs)
                return self._find(Program(inner, inputs, "body", names), wanted)
        return None

    def _recorded(self, program: Program) -> dict[Value, Any]:
        known = self.known.get(program.block)
        if known is None:
            recorder = Recorder(program, self.search.judge)
            known = self.known[program.block] = recorder.record()
            self.search.stats.recordings += recorder.n_runs
        return known


def _entering(
    eqn: Equation, block: Block, known: dict[Value, Any]
) -> tuple[Any, ...] | None:
    """Return what enters a sub-program the first time."""
    operands = [
        a.value if isinstance(a, Literal) else known.get(a) for a in eqn.operands
    ]
    if eqn.name == "scan":
        n_consts, n_carry = jaxapi.scan_sizes(eqn.params)
        n = n_consts + n_carry
        step = eqn.params["length"] - 1 if eqn.params["reverse"] else 0
        if not eqn.params["length"]:
            return None
        operands = [
            *operands[:n],
            *(None if x is None else x[step] for x in operands[n:]),
        ]
    elif eqn.name == "while":
        n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        is_cond = block is eqn.params["cond_jaxpr"]
        consts = operands[:n_cond] if is_cond else operands[n_cond : n_cond + n_body]
        operands = [*consts, *operands[n_cond + n_body :]]
    elif eqn.name == "cond":
        operands = operands[1:]
    if len(operands) != len(block.inputs) or any(o is None for o in operands):
        return None
    return tuple(operands)
