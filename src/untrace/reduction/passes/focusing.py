"""Reduce what stands inside a call that the failure needs, as a program of its own.

The body of a `jit` or `checkpoint` is cut with the passes for whole programs, its inputs
holding what enters it. Each candidate is put back into the call before it is judged, so
inputs and results of the call may change with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from untrace import jaxapi
from untrace.ir import Block, Equation, Literal, Value, sub_blocks
from untrace.jaxapi import evaluation, plainness
from untrace.reduction.applying import program_from
from untrace.reduction.passes.cutting import (
    Cutting,
    cut_beginning,
    cut_blocks,
    cut_end,
    cut_far,
    cut_halves,
    cut_one,
)
from untrace.reduction.passes.outputs import drop_outputs, drop_passed_through
from untrace.reduction.passes.pointing import start_there
from untrace.reduction.program import Program
from untrace.reduction.search import Search

CALLS = frozenset({"jit", "checkpoint", "remat2", "closed_call"})
"""Primitives that say nothing of their operands one by one, or only in params of `jit`."""

CUTS = (
    start_there,
    cut_halves,
    drop_outputs,
    cut_end,
    cut_far,
    cut_beginning,
    cut_blocks,
    cut_one,
    drop_passed_through,
)

Around = Callable[[Program], Program | None]


class Focused(Search):
    """A search for the smallest body of a call; `outer` sees whole programs."""

    def __init__(self, outer: Search, inner: Program, around: Around) -> None:
        super().__init__(inner, outer.judge, notify=outer.notify)
        self.stats, self.size, self.unfit = outer.stats, outer.size, outer.unfit
        self._outer, self._around = outer, around
        self.outcomes = outer.outcomes

    def first(self, candidates: Iterable[Program | None]) -> bool:
        """Accept the first body with which the whole is smaller and fails."""
        bodies: dict[Program, Program] = {}

        def wholes() -> Iterator[Program | None]:
            for body in candidates:
                whole = None if body is None else self._around(body)
                if body is not None and whole is not None:
                    bodies[whole] = body
                yield whole

        found = self._outer.first(wholes())
        if found:
            self.best, self.size = bodies[self._outer.best], self._outer.size
        return found


def focus(search: Search) -> None:
    """Cut what surrounds a call, then its body; so with every call."""
    n_calls = len(_calls(search.best))
    for index in range(n_calls):
        calls = _calls(search.best)
        if index < len(calls):
            _focus(search, calls[index])


def _calls(program: Program) -> list[Equation]:
    return [eqn for eqn in program.block.equations if eqn.name in CALLS]


def _focus(search: Search, eqn: Equation) -> None:
    cutting = Cutting(search)
    given = search.best.block.inputs
    known = {**dict(zip(given, search.best.values)), **cutting.values}
    controls = search.best.controls
    others = None
    if controls is not None:
        others = {**dict(zip(given, controls)), **cutting.controls}
    inner = body_of(eqn, known, others)
    if inner is None:
        return

    def around(body: Program) -> Program | None:
        return called(eqn, body, search.best.name)

    is_alone = len(search.best.block.equations) == 1
    if not is_alone and not search.first(iter([around(inner)])):
        return
    focused = Focused(search, inner, around)
    for cut in CUTS:
        cut(focused)
    focus(focused)


def body_of(
    eqn: Equation,
    known: Mapping[Value, Any],
    controls: Mapping[Value, Any] | None = None,
) -> Program | None:
    """Return the body of a call, given the values that enter it."""
    (block,) = sub_blocks(eqn)
    if block.constants:
        return None
    values = _entering(eqn, known)
    others = None if controls is None else tuple(_entering(eqn, controls))
    debug = block.debug_info
    names = getattr(debug, "arg_names", None) or ("",) * len(values)
    name = getattr(debug, "func_name", None) or "body"
    return Program(block, tuple(values), name, tuple(names), others)


def _entering(eqn: Equation, known: Mapping[Value, Any]) -> list[Any]:
    return [
        np.asarray(a.value, a.aval.dtype) if isinstance(a, Literal) else known[a]
        for a in eqn.operands
    ]


def called(eqn: Equation, body: Program, name: str) -> Program | None:
    """Return a program that calls a body the way an equation does."""
    (key,) = (key for key, param in eqn.params.items() if isinstance(param, Block))
    n_in, n_out = len(body.block.inputs), len(body.block.outputs)
    params = plainness.resized(eqn.params, n_in, n_out)
    closed = body.block.jaxpr
    params[key] = closed if eqn.params[key].is_closed else jaxapi.split_jaxpr(closed)[0]
    avals = [value.aval for value in body.block.inputs]

    def flat(*tracers: Any) -> Any:
        return evaluation.bind(eqn, params, tracers)

    try:
        with jaxapi.deep_recursion():
            traced = jaxapi.trace_flat(flat, avals, name, body.names)
            return program_from(traced, body.values, body.names, name, body.controls)
    except Exception:  # not every body can stand in every call
        return None
