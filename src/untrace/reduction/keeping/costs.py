"""Predicates on what a program costs: compile time, memory, compilations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from untrace.reduction.keeping import scripts
from untrace.reduction.keeping.base import Keep, RunningKeep, check_number, story
from untrace.reduction.outcome import EARLY, Outcome, Run
from untrace.reduction.program import Program

MAX_MARGIN = 1.5


class Measured(RunningKeep):
    """A predicate on a number that a run tells."""

    def explain(
        self, outcomes: Sequence[Outcome], program: Program | None = None
    ) -> str:
        outcome = outcomes[0]
        return self._found(outcome) if outcome.status == "ok" else story(outcome)

    def _found(self, outcome: Outcome) -> str:
        """Say what the number was."""
        raise NotImplementedError


@dataclass(frozen=True)
class SlowCompile(Measured):
    """Tracing, lowering and compiling take longer than a number of seconds.

    Attributes:
      seconds: Time to exceed, on this machine: the wall time or the processor time of
        the process, whichever is smaller. A busy machine makes nothing slow.
      stage: Only this stage counts: "trace", "lower" or "compile".
      margin: How many times longer candidates must take, so that the smallest of them is
        still slow when the machine has less to do.

    >>> str(SlowCompile(5.0))
    'slow_compile(5.0)'
    """

    seconds: float
    stage: str | None = None
    margin: float = 1.0

    WORD: ClassVar[str] = "slow_compile"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "seconds", self.seconds)
        check_number(self, "margin", self.margin)

    def without_margin(self) -> Keep:
        return replace(self, margin=1.0)

    @property
    def is_measured(self) -> bool:
        return True

    @property
    def runs(self) -> tuple[Run, ...]:
        run = self.run("compile")
        return (replace(run, timeout_s=max(run.timeout_s, 2 * self.seconds + 10)),)

    def _is_kept(self, outcomes: Sequence[Outcome], program: Program) -> bool:
        outcome = outcomes[0]
        return (
            outcome.status in ("ok", "timeout")
            and self._seconds(outcome) > self.seconds * self.margin
        )

    def _pinned(self, outcomes: Sequence[Outcome], program: Program) -> Keep:
        """Pin the stage that takes most of the time, if it alone takes long enough."""
        outcome = outcomes[0]
        slowest = max(EARLY, key=lambda stage: _spent(outcome, stage))
        is_one = _spent(outcome, slowest) > self.seconds
        pinned = replace(self, stage=slowest) if is_one else self
        times = pinned._seconds(outcomes[0]) / self.seconds if self.seconds else 1.0
        return replace(pinned, margin=round(min(MAX_MARGIN, times**0.5), 2))

    def describe(self) -> str:
        what = {
            None: "Tracing, lowering and compiling",
            "trace": "Tracing",
            "lower": "Lowering",
            "compile": "Compiling",
        }[self.stage]
        take = "takes" if self.stage else "take"
        return f"{what} {take} more than {self.seconds:g} s{self.where}."

    def _found(self, outcome: Outcome) -> str:
        spent = ", ".join(f"{stage} {_spent(outcome, stage):.2g} s" for stage in EARLY)
        return f"It took: {spent}."

    def check_lines(self, name: str, program: Program | None = None) -> list[str]:
        return [
            "began = time.perf_counter(), time.process_time()",
            *scripts.call_lines(name, self.under),
            "ended = time.perf_counter(), time.process_time()",
            "seconds = min(end - begin for end, begin in zip(ended, began))",
            'print(f"compiled and run in {seconds:.2f} s")',
            f'assert seconds <= {self.seconds!r}, "compilation is slow"',
        ]

    def check_imports(self) -> tuple[str, ...]:
        return (*scripts.env_lines(self.env), "import time")

    def _seconds(self, outcome: Outcome) -> float:
        stages = (self.stage,) if self.stage else EARLY
        return sum(_spent(outcome, stage) for stage in stages)


def _spent(outcome: Outcome, stage: str) -> float:
    """Return the smaller of wall and processor time of a stage."""
    wall = outcome.seconds.get(stage, 0.0)
    return min(wall, outcome.cpu_seconds.get(stage, wall))


@dataclass(frozen=True)
class Memory(Measured):
    """The compiled program needs more than a number of bytes, as XLA plans them.

    Arguments, outputs and temporaries count. A run over `memory_bytes` does not. Pinned,
    arguments and outputs count no more than those of the original, and not at all if its
    temporaries alone are too many: what is cut becomes an argument, and that is no
    reason for a program to need memory.

    Attributes:
      n_bytes: Bytes to exceed.
      arguments: So many bytes of the arguments count at most; all if None.
      outputs: So many bytes of the outputs count at most.

    >>> str(Memory(1_000_000))
    'memory(1000000)'
    """

    n_bytes: int
    arguments: int | None = field(default=None, kw_only=True)
    outputs: int | None = field(default=None, kw_only=True)

    WORD: ClassVar[str] = "memory"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "n_bytes", self.n_bytes)

    @property
    def runs(self) -> tuple[Run, ...]:
        return (self.run("compile", "memory"),)

    def _is_kept(self, outcomes: Sequence[Outcome], program: Program) -> bool:
        outcome = outcomes[0]
        return outcome.status == "ok" and self._counted(outcome) > self.n_bytes

    def _counted(self, outcome: Outcome) -> int:
        if outcome.peak_bytes is None:
            return 0
        given, made = outcome.argument_bytes, outcome.output_bytes
        temporaries = outcome.peak_bytes - given - made
        given = given if self.arguments is None else min(given, self.arguments)
        made = made if self.outputs is None else min(made, self.outputs)
        return temporaries + given + made

    def _pinned(self, outcomes: Sequence[Outcome], program: Program) -> Keep:
        outcome = outcomes[0]
        inner = replace(self, arguments=0, outputs=0)
        if inner._counted(outcome) > self.n_bytes:
            return inner
        limits = {"arguments": outcome.argument_bytes, "outputs": outcome.output_bytes}
        given = {name: getattr(self, name) for name in limits}
        return replace(
            self,
            **{k: v if given[k] is None else given[k] for k, v in limits.items()},
        )

    def describe(self) -> str:
        what = " for temporaries" if self._is_of_temporaries else ""
        return (
            f"The compiled program needs more than {self.n_bytes:,} bytes{what}"
            f"{self.where}."
        )

    @property
    def _is_of_temporaries(self) -> bool:
        return self.arguments == 0 and self.outputs == 0

    def _found(self, outcome: Outcome) -> str:
        if outcome.peak_bytes is None:
            return story(outcome)
        return f"The compiled program needs {self._counted(outcome):,} bytes."

    def check_lines(self, name: str, program: Program | None = None) -> list[str]:
        given, made = (
            "found.argument_size_in_bytes",
            ("found.output_size_in_bytes - found.alias_size_in_bytes"),
        )
        parts = [
            f"n_bytes += {part if most is None else f'min({part}, {most!r})'}"
            for part, most in ((given, self.arguments), (made, self.outputs))
            if most != 0
        ]
        return [
            *scripts.compiled_lines(name, self.under),
            "found = compiled.memory_analysis()",
            "n_bytes = found.temp_size_in_bytes",
            *parts,
            'print(f"{n_bytes:,} bytes")',
            f'assert n_bytes <= {self.n_bytes!r}, "it needs too much memory"',
        ]


@dataclass(frozen=True)
class Recompiles(Measured):
    """A second call compiles again.

    In that call each output takes the place of the first input of its shape and dtype
    that is still free, as in a loop that feeds a state back.

    >>> str(Recompiles())
    'recompiles()'
    """

    WORD: ClassVar[str] = "recompiles"

    @property
    def runs(self) -> tuple[Run, ...]:
        return (self.run("jit", "recompiles"),)

    def _is_kept(self, outcomes: Sequence[Outcome], program: Program) -> bool:
        outcome = outcomes[0]
        return outcome.status == "ok" and (outcome.n_compiles or 0) > 1

    def describe(self) -> str:
        return f"A second call, with outputs of the first, compiles again{self.where}."

    def _found(self, outcome: Outcome) -> str:
        return f"Two calls made {outcome.n_compiles} compilation."

    def check_lines(self, name: str, program: Program | None = None) -> list[str]:
        return scripts.recompile_lines(name, self.under, program)
