"""Record what the equations of a program compute, so that any of them can be cut.

All results are outputs of one compiled program. Should that fail, as it may where the
failure is one of compilation, halves are tried, down to the equation that fails; its
results are made up. Equations like it stand alone in later recordings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.ir import Equation, Value
from untrace.reduction.applying import apply
from untrace.reduction.edits import Edits, Held
from untrace.reduction.outcome import Run
from untrace.reduction.program import Program
from untrace.reduction.trials import Judge, job_of
from untrace.reduction.workers.wire import decode

RECORD = Run(action="jit", wants=frozenset({"arrays"}))
MAX_RUNS = 40
"""Runs spent on a program that cannot be compiled as a whole."""

FAIR, FAIR_S = 10, 10.0
"""How much longer than programs so far a recording may take, in times and in seconds."""


class Recorder:
    """Values of the results of top-level equations, as far as they can be computed."""

    def __init__(self, program: Program, judge: Judge) -> None:
        self.program = program
        self.judge = judge
        self.values: dict[Value, Any] = {}
        self.n_runs = 0

    def record(self) -> dict[Value, Any]:
        """Compute all; what cannot be computed is made up."""
        if self.judge.keep.needs_values:
            for eqns in self._segments():
                self._segment(eqns)
        for value in _results(self.program.block.equations):
            if value not in self.values:
                self.values[value] = made_up(value.aval)
        return self.values

    def _segments(self) -> list[list[Equation]]:
        """Split the program around equations like those that did not run before."""
        found: list[list[Equation]] = [[]]
        for eqn in self.program.block.equations:
            if _kind(eqn) in self.judge.suspects:
                found += [[eqn], []]
            else:
                found[-1].append(eqn)
        return found

    def _segment(self, eqns: Sequence[Equation]) -> None:
        wanted = [value for value in _results(eqns) if is_holdable(value.aval)]
        if not wanted or self.n_runs >= MAX_RUNS:
            return
        arrays = self._run(wanted)
        if arrays is not None:
            self.values.update(zip(wanted, arrays))
        elif len(eqns) > 1:
            middle = len(eqns) // 2
            self._segment(eqns[:middle])
            self._segment(eqns[middle:])
        else:  # what follows is computed from what is made up
            self.judge.suspects.update(map(_kind, eqns))
            self.values.update({value: made_up(value.aval) for value in wanted})

    def _run(self, wanted: list[Value]) -> Sequence[Any] | None:
        held = {value: Held(array) for value, array in self.values.items()}
        part = apply(self.program, Edits(outputs=tuple(wanted), replaced=held))
        return None if part is None else evaluate(part, self.judge, self)


def evaluate(
    program: Program, judge: Judge, counter: Recorder | None = None
) -> Sequence[Any] | None:
    """Return the outputs of a program, or None if it does not run."""
    if counter is not None:
        counter.n_runs += 1
    longest = max((run.timeout_s for run in judge.keep.runs), default=RECORD.timeout_s)
    limit = (
        min(longest, FAIR_S + FAIR * judge.longest_s) if judge.longest_s else longest
    )
    outcome = judge.run(job_of(program, replace(RECORD, timeout_s=limit)))
    judge.check_workers()
    if outcome.status != "ok" or len(outcome.arrays) != len(program.block.outputs):
        return None
    return [
        _typed(decode(array), atom.aval)
        for array, atom in zip(outcome.arrays, program.block.outputs)
    ]


def _typed(array: Any, aval: Any) -> Any:
    """Make keys of what a worker sends as their data."""
    if jaxapi.is_key(aval):
        return jax.random.wrap_key_data(array, impl=jaxapi.key_impl_name(aval))
    return array


def is_holdable(aval: Any) -> bool:
    """Whether a value of this type can be an input that holds an array."""
    return (
        hasattr(aval, "dtype")
        and not jaxapi.is_ref_aval(aval)
        and not jaxapi.is_token(aval)
        and jaxapi.dtype_kind(aval.dtype) != "float0"
    )


def made_up(aval: Any) -> Any:
    """Make a value of a type: numbers drawn from a fixed seed, small integers."""
    if jaxapi.is_key(aval):
        key = jax.random.key(0, impl=jaxapi.key_impl_name(aval))
        n = int(np.prod(aval.shape))
        return jax.random.split(key, n).reshape(aval.shape) if aval.shape else key
    rng = np.random.default_rng(0)
    kind = jaxapi.dtype_kind(aval.dtype)
    if kind in ("bool", "integer", "float0"):
        return (
            np.ones(aval.shape, aval.dtype)
            if kind == "bool"
            else np.zeros(aval.shape, aval.dtype)
        )
    return rng.normal(size=aval.shape).astype(aval.dtype)


def _kind(eqn: Equation) -> tuple[str, ...]:
    """Name a primitive and the types that it gives."""
    return eqn.name, *(str(aval) for aval in eqn.result_avals)


def _results(eqns: Sequence[Equation]) -> list[Value]:
    return [r for eqn in eqns for r in eqn.results if r is not None]
