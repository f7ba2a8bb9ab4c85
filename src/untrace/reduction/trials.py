"""Ask the predicate about a program: write it, run it in workers, judge the outcomes."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field

import jax
import numpy as np

from untrace.reduction.applying import apply
from untrace.reduction.keeping import Keep
from untrace.reduction.outcome import Job, Outcome, Run
from untrace.reduction.program import Program
from untrace.reduction.simpler_types import retyped
from untrace.reduction.workers import run_job
from untrace.reduction.workers.wire import encode
from untrace.reduction.writing import saved, trial_source, written
from untrace.result import Source

FLOAT64 = {np.dtype(np.float32): np.dtype(np.float64)}
"""What "in 64 bits" means for a program in 32 bits."""

MAX_LOST = 4
"""Times that a job is run again whose workers were lost, beside their own attempts."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the predicate said about one program.

    Attributes:
      is_interesting: Whether it fails as the original does.
      other: A label of another failure that was seen instead, or None.
      outcomes: Of the last attempt.
      is_lost: Whether the machinery failed, so that nothing is known.
    """

    is_interesting: bool
    other: str | None = None
    outcomes: tuple[Outcome, ...] = ()
    is_lost: bool = False


@dataclass(frozen=True)
class Trial:
    """A program made ready to run: nothing of it needs JAX in this process any more."""

    program: Program
    jobs: tuple[Job, ...]


def prepare(program: Program, keep: Keep) -> Trial | None:
    """Write the jobs of a program; None if one of them cannot be written."""
    jobs = [_job(program, run) for run in keep.runs]
    if any(job is None for job in jobs):
        return None
    return Trial(program, tuple(job for job in jobs if job is not None))


def _job(program: Program, run: Run) -> Job | None:
    if run.float64:
        with jax.enable_x64(True):
            wide = _in_64_bits(program)
            return None if wide is None else _plain_job(wide, run)
    return _plain_job(program, run)


def _plain_job(program: Program, run: Run) -> Job:
    if run.action == "command":
        return file_job(written(program), run)
    return job_of(program, run)


def file_job(source: Source, run: Run) -> Job:
    """Give a command the complete file."""
    text, sidecar = saved(source)
    return Job("", source.module.name, (), run, text, sidecar)


def job_of(program: Program, run: Run, source: Source | None = None) -> Job:
    """Write a program as a module for a worker, which is given the values beside it."""
    source = source or trial_source(program)
    weak = [getattr(value.aval, "weak_type", False) for value in program.block.inputs]
    arrays = tuple(encode(v, is_weak) for v, is_weak in zip(program.values, weak))
    if source.module.stored:
        text, sidecar = saved(source)
        return Job(text, source.module.name, arrays, run, "", sidecar)
    return Job(str(source), source.module.name, arrays, run)


def _in_64_bits(program: Program) -> Program | None:
    edits = retyped(program, FLOAT64)
    return program if edits is None else apply(program, edits)


@dataclass
class Judge:
    """Runs trials and says whether they show the failure.

    Attributes:
      keep: The pinned predicate.
      executor: Where jobs run; None: in workers on this machine.
      attempts: How often a program is run before it counts as not failing; more than
        once only for failures that do not always show.
      notes: What the user should know.
      suspects: Kinds of equations that did not run by themselves; see `values`.
      longest_s: The longest that a program took that came to an end.
    """

    keep: Keep
    executor: Executor | None = None
    attempts: int = 1
    notes: list[str] = field(default_factory=list[str])
    suspects: set[tuple[str, ...]] = field(default_factory=set[tuple[str, ...]])
    longest_s: float = 0.0

    def judge(self, trial: Trial) -> Verdict:
        """Run a trial until it fails in the wanted way, `attempts` times at most."""
        verdict = Verdict(False)
        for _ in range(max(1, self.attempts)):
            verdict = self._once(trial)
            if verdict.is_interesting:
                break
        return verdict

    def judge_program(self, program: Program) -> bool:
        """Tell whether a program, written as equations, shows the failure."""
        trial = prepare(program, self.keep)
        return trial is not None and self.judge(trial).is_interesting

    def everything(self, trial: Trial) -> Verdict:
        """Run all jobs of a trial once, whether the verdict depends on them or not."""
        outcomes = tuple(self.run(job) for job in trial.jobs)
        if any(outcome.status == "lost" for outcome in outcomes):
            return Verdict(False, None, outcomes, True)
        is_interesting = self.keep.holds(outcomes, trial.program)
        return Verdict(is_interesting, None, outcomes)

    def _once(self, trial: Trial) -> Verdict:
        """Run the jobs of a trial in turn, as far as the verdict depends on them."""
        outcomes: list[Outcome | None] = [None] * len(trial.jobs)
        decision = self.keep.decide(outcomes, trial.program)
        for i, job in enumerate(trial.jobs):
            if decision is not None:
                break
            outcomes[i] = outcome = self.run(job)
            if outcome.status == "lost":
                return Verdict(False, None, (outcome,), True)
            decision = self.keep.decide(outcomes, trial.program)
        seen = tuple(outcome for outcome in outcomes if outcome is not None)
        if decision:
            return Verdict(True, None, seen)
        return Verdict(False, self.keep.other_failure(seen), seen)

    def run(self, job: Job) -> Outcome:
        """Run one job; should the executor be gone, here."""
        outcome = self._run(job)
        for _ in range(MAX_LOST):
            if outcome.status != "lost":
                break
            outcome = self._run(job)
        if outcome.status not in ("lost", "timeout"):
            self.longest_s = max(self.longest_s, sum(outcome.seconds.values()))
        return outcome

    def _run(self, job: Job) -> Outcome:
        if self.executor is not None:
            try:
                return self.executor.submit(run_job, job).result()
            except Exception as error:  # executors may fail in any way
                self.executor = None
                self.notes.append(
                    f"the executor failed ({type(error).__name__}: {error}); "
                    "went on with workers on this machine"
                )
        return run_job(job)
