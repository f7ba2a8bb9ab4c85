"""Whatever fails: the program is run once, and what it shows is what is kept.

A compiled program that makes a NaN is run op by op as well: if it makes none then, that is
the failure, and no other NaN will do. Nor will one that is there in 64 bits, if the
original's is not: then a number was too small for its type, and `0 / 0` is not what was
meant. One that shows nothing is compared with itself op by op.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from untrace import jaxapi
from untrace.ir import all_equations
from untrace.reduction.keeping.base import Keep, RunningKeep, story
from untrace.reduction.keeping.failures import Crashes, Hangs, Raises
from untrace.reduction.keeping.values import Differs, Inf, Nan
from untrace.reduction.outcome import Outcome, Run
from untrace.reduction.program import Program

HALF_RTOL = 0.1
"""Relative error that is no rounding in programs with numbers of 16 bits or fewer."""


@dataclass(frozen=True)
class Auto(RunningKeep):
    """The program crashes, raises, hangs, or makes a NaN or an infinity, whichever it is.

    Pinned, it is the predicate of the failure that was seen. If there is none, it is that
    the program gives other values compiled than op by op.

    >>> str(Auto(under="grad"))
    "auto(under='grad')"
    """

    WORD: ClassVar[str] = "auto"

    @property
    def runs(self) -> tuple[Run, ...]:
        return (self.run("jit", "blame"),)

    def _is_kept(self, outcomes: Sequence[Outcome], program: Program) -> bool:
        return self._seen(outcomes[0]) is not None

    def pinned(self, outcomes: Sequence[Outcome], program: Program) -> Keep | None:
        seen = self._seen(outcomes[0])
        return None if seen is None else seen.pinned(outcomes, program)

    def closer(self, pinned: Keep) -> tuple[Keep, ...]:
        if isinstance(pinned, (Nan, Inf)):
            compiled = replace(pinned, jit_only=True, blame=None)
            return (compiled, replace(pinned, narrow_only=True))
        return pinned.closer(pinned)

    def otherwise(self, program: Program) -> Keep:
        rtol = HALF_RTOL if _is_coarse(program) else Differs.rtol
        return Differs(rtol=rtol, **self._how())

    def _seen(self, outcome: Outcome) -> Keep | None:
        return shown_by(outcome, **self._how())

    def _how(self) -> dict[str, Any]:
        names = ("under", "timeout_s", "env", "memory_bytes")
        return {name: getattr(self, name) for name in names}

    def describe(self) -> str:
        return f"Something fails{self.where}."

    def explain(
        self, outcomes: Sequence[Outcome], program: Program | None = None
    ) -> str:
        return (
            f"{story(outcomes[0])} Nothing fails by itself: say what is wrong with "
            'differs("jit", "eager"), slow_compile(seconds), memory(n_bytes), ...'
        )

    def check_lines(self, name: str, program: Program | None = None) -> list[str]:
        return Raises(under=self.under).check_lines(name, program)


def shown_by(outcome: Outcome, **how: Any) -> Keep | None:
    """Return the predicate of what a run shows; None if nothing failed in it.

    Args:
      outcome: Of a compiled run.
      how: Arguments of the predicate: `under`, `env`, ...
    """
    if outcome.is_ours or outcome.stage == "load":
        return None
    ends = {"died": Crashes, "raised": Raises, "timeout": Hangs}
    if outcome.status in ends:
        return ends[outcome.status](**how)
    if outcome.status != "ok" or outcome.has_nan_inputs:
        return None
    if any(output.n_nan for output in outcome.outputs):
        return Nan(**how)
    is_infinite = any(output.n_inf for output in outcome.outputs)
    return Inf(**how) if is_infinite and outcome.has_finite_inputs else None


def _is_coarse(program: Program) -> bool:
    """Whether a program has numbers of 16 bits or fewer."""
    avals = (a for eqn in all_equations(program.block) for a in eqn.result_avals)
    dtypes = (getattr(aval, "dtype", None) for aval in avals)
    return any(
        dtype is not None
        and jaxapi.dtype_kind(dtype) == "floating"
        and dtype.itemsize <= 2
        for dtype in dtypes
    )
