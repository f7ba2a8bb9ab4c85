"""A condition beside the failure: what could be lowered still can be.

Where the predicate does not run the program, or a command does not say so, a cut may
leave a program that JAX refuses; nobody could use that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from untrace.reduction.keeping.base import RunningKeep
from untrace.reduction.outcome import Outcome, Run
from untrace.reduction.program import Program


@dataclass(frozen=True)
class Lowers(RunningKeep):
    """The program can be traced and lowered.

    >>> str(Lowers())
    'lowers()'
    """

    WORD: ClassVar[str] = "lowers"
    IS_CONDITION: ClassVar[bool] = True

    @property
    def runs(self) -> tuple[Run, ...]:
        return (self.run("lower"),)

    def _is_kept(self, outcomes: Sequence[Outcome], program: Program) -> bool:
        return outcomes[0].status == "ok"

    def other_failure(self, outcomes: Sequence[Outcome]) -> str | None:
        """Return None: a candidate that does not lower is no other failure of interest."""
        return None

    def describe(self) -> str:
        return f"It can be lowered{self.where}."


def is_lowered(runs: Sequence[Run], outcomes: Sequence[Outcome]) -> bool:
    """Whether a run shows that the program can be lowered."""
    return any(
        run.action in ("jit", "compile") and outcome.stage in ("compile", "run", "done")
        for run, outcome in zip(runs, outcomes)
    )
