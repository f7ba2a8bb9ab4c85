"""Find the equation at which two ways of running a program part.

Each result is looked at alone, as the only output of what makes it: with others beside
it the compiler would do other things.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.ir import Equation, Literal, Value
from untrace.reduction.applying import apply
from untrace.reduction.edits import Edits
from untrace.reduction.keeping.values import Differs, pairs, relative_error
from untrace.reduction.program import Program
from untrace.reduction.trials import Judge, prepare

MAX_EQUATIONS = 8
"""Equations of a program that is looked at: each is run in both ways."""

ROUNDINGS = 50
"""Errors of so many units in the last place are more than rounding."""

CANCELLING = ("add", "sub", "add_any", "reduce_sum", "dot_general")
CANCELLATION = 100.0
"""What is added is so many times larger than the sum: the digits of the sum are gone."""


@dataclass(frozen=True)
class Parting:
    """Where two ways part.

    Attributes:
      eqn: The first equation whose result differs by more than rounding.
      errors: Of each equation up to it the relative error of its result; None if only
        one way gives finite numbers.
      is_cancellation: It adds numbers that are much larger than their sum.
    """

    eqn: Equation
    errors: tuple[tuple[str, float | None], ...]
    is_cancellation: bool

    def told(self) -> str:
        """Say how large the errors are."""
        shown = ", ".join(
            f"`{name}` {'not finite alike' if error is None else f'{error:.2g}'}"
            for name, error in self.errors
        )
        return f"Relative errors: {shown}"

    @property
    def why(self) -> tuple[str, str] | None:
        """Return why a sum differs, and what is usually done; None if it is no such sum."""
        if not self.is_cancellation:
            return None
        return (
            "large numbers cancel, and what is left are their rounding errors.",
            "`jnp.expm1`, `jnp.log1p`, a mean taken off first, or more bits there.",
        )


def parting(program: Program, keep: Differs, judge: Judge) -> Parting | None:
    """Run each result in both ways; None if nothing differs, or it cannot be told."""
    eqns = program.block.equations
    if keep.under is not None or not 0 < len(eqns) <= MAX_EQUATIONS:
        return None
    known: dict[Any, Any] = dict(zip(program.block.inputs, program.values))
    errors: list[tuple[str, float | None]] = []
    for eqn in eqns:
        found = [_in_both(program, value, keep, judge) for value in _numbers(eqn)]
        if any(pair is None for pair in found):
            return None
        each = [(relative_error(*pair), pair) for pair in found if pair is not None]
        if not each:
            continue
        error, pair = max(each, key=lambda one: _rank(one[0]))
        errors.append((eqn.name, error))
        if error is None or error > ROUNDINGS * _eps(pair):
            return Parting(eqn, tuple(errors), _cancels(eqn, known, pair[1]))
        known |= {v: p[1] for v, p in zip(_numbers(eqn), found) if p is not None}
    return None


def _numbers(eqn: Equation) -> list[Value]:
    kinds = ("floating", "complex", "integer", "bool")
    return [
        value
        for value in eqn.results
        if value is not None
        and not jaxapi.is_key(value.aval)
        and jaxapi.dtype_kind(value.aval.dtype) in kinds
    ]


def _in_both(
    program: Program, value: Value, keep: Differs, judge: Judge
) -> tuple[Any, Any] | None:
    """Return what a value is in both ways."""
    made = apply(program, Edits(outputs=(value,)))
    if made is None:
        return None
    try:
        trial = prepare(replace(made, controls=None), keep)
    except Exception:  # not every part can be written alone
        return None
    outcomes = [] if trial is None else [judge.run(job) for job in trial.jobs]
    if not outcomes or any(outcome.status != "ok" for outcome in outcomes):
        return None
    return next(iter(pairs(outcomes)), None)


def _rank(error: float | None) -> float:
    return float("inf") if error is None else error


def _eps(pair: tuple[Any, Any]) -> float:
    """Return the coarser precision of two arrays; 0 of integers."""
    kinds = [array.dtype for array in pair if array.dtype.kind not in "iub"]
    return max((float(jnp.finfo(dtype).eps) for dtype in kinds), default=0.0)


def _cancels(eqn: Equation, known: Mapping[Any, Any], result: Any) -> bool:
    if eqn.name not in CANCELLING:
        return False
    given = [a.value if isinstance(a, Literal) else known.get(a) for a in eqn.operands]
    largest = _largest([x for x in given if x is not None])
    return largest > CANCELLATION * _largest([result])


def _largest(arrays: Sequence[Any]) -> float:
    wide = [np.abs(np.asarray(x).astype(np.complex128)) for x in arrays]
    finite = [x[np.isfinite(x)] for x in wide]
    return max((float(x.max(initial=0.0)) for x in finite), default=0.0)
