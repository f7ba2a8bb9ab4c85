"""Ask the predicate about a program: write it, run it in workers, judge the outcomes."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace

import jax

from untrace import jaxapi
from untrace.reduction.keeping import Keep
from untrace.reduction.outcome import Job, Outcome, Run
from untrace.reduction.program import Program
from untrace.reduction.widening import in_64_bits
from untrace.reduction.workers import run_job
from untrace.reduction.workers.wire import Encoded, encode
from untrace.reduction.writing import saved, trial_source, written
from untrace.result import Source

MAX_LOST = 1
"""Times that a job is run again whose workers were lost, beside their own attempts."""

MAX_LOST_IN_A_ROW = 3
"""Jobs lost one after the other, after which workers are taken to be of no use."""


BRIEF, BRIEF_S = 4, 0.5
"""How much longer a candidate may take than the last ones that came to an end, in times
and in seconds, before it counts as one that hangs, until that is confirmed; the first is
given so large a part of the limit."""

N_RECENT = 8


class Exhausted(Exception):
    """A limit was reached; the best program so far stands."""


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
    """A program made ready to run: nothing of it needs JAX in this process any more.

    Attributes:
      jobs: What the predicate runs.
      controls: The same with the control inputs; none if there are none.
    """

    program: Program
    jobs: tuple[Job, ...]
    controls: tuple[Job, ...] = ()


def prepare(program: Program, keep: Keep) -> Trial | None:
    """Write the jobs of a program; None if one of them cannot be written."""
    jobs = _jobs(program, keep)
    if jobs is None or program.controls is None:
        return None if jobs is None else Trial(program, jobs)
    controls = control_jobs(program.with_values(program.controls), keep, jobs)
    return None if controls is None else Trial(program, jobs, controls)


def can_fail(program: Program, keep: Keep) -> bool:
    """Whether a program may fail, as far as that is known before it runs.

    One that computes nothing does not, but for commands, of which nothing is known.
    """
    is_any = any(run.action == "command" for run in keep.runs)
    if not is_any and not program.block.equations:
        return False
    if keep.decide((None,) * len(keep.runs), program) is False:
        return False
    return can_be_transformed(program, keep)


def can_be_transformed(program: Program, keep: Keep) -> bool:
    """Whether there is an input that derivatives are taken by, where some are."""
    if not any(run.under in ("grad", "jvp") for run in keep.runs):
        return True
    kinds = ("floating", "complex")
    inputs = program.block.inputs
    return any(jaxapi.dtype_kind(x.aval.dtype) in kinds for x in inputs)


def control_jobs(
    program: Program, keep: Keep, like: tuple[Job, ...] = ()
) -> tuple[Job, ...] | None:
    """Write the jobs of a program with its control inputs, which ask for no blame.

    Where it would be asked for, a large program need not be compiled to be fine.
    """
    jobs = _jobs(program, keep, like)
    if jobs is None:
        return None
    return tuple(replace(job, run=_without_blame(job.run)) for job in jobs)


def _without_blame(run: Run) -> Run:
    if "blame" not in run.wants:
        return run
    return replace(run, wants=run.wants - {"blame"} | {"quick"})


def _jobs(
    program: Program, keep: Keep, like: tuple[Job, ...] = ()
) -> tuple[Job, ...] | None:
    """Write jobs; those of the same program with other inputs have the same text."""
    found: list[Job] = []
    for i, run in enumerate(keep.runs):
        if like and not run.float64 and run.action != "command":
            job = replace(like[i], arrays=_encoded(program))
        else:
            job = job_for(program, run)
        if job is None:
            return None
        found.append(job)
    return tuple(found)


def job_for(program: Program, run: Run, source: Source | None = None) -> Job | None:
    """Write the job of a run; None if the program cannot be had in 64 bits.

    Args:
      run: How to run it.
      source: Its text, if that is what is to be run. In 64 bits there is another one.
    """
    if run.float64:
        with jax.enable_x64(True):
            wide = in_64_bits(program)
            return None if wide is None else _plain_job(wide, run, None)
    return _plain_job(program, run, source)


def _plain_job(program: Program, run: Run, source: Source | None) -> Job:
    if run.action == "command":
        return file_job(source or written(program), run)
    return job_of(program, run, source)


def file_job(source: Source, run: Run) -> Job:
    """Give a command the complete file."""
    text, sidecar = saved(source)
    return Job("", source.module.name, (), run, text, sidecar)


def job_of(program: Program, run: Run, source: Source | None = None) -> Job:
    """Write a program as a module for a worker, which is given the values beside it."""
    source = source or trial_source(program)
    arrays = _encoded(program)
    if source.module.stored:
        text, sidecar = saved(source)
        return Job(text, source.module.name, arrays, run, "", sidecar)
    return Job(str(source), source.module.name, arrays, run)


def _encoded(program: Program) -> tuple[Encoded, ...]:
    weak = [getattr(value.aval, "weak_type", False) for value in program.block.inputs]
    return tuple(encode(v, is_weak) for v, is_weak in zip(program.values, weak))


@dataclass
class Judge:
    """Runs trials and says whether they show the failure.

    Attributes:
      keep: The pinned predicate.
      executor: Where jobs run; None: in workers on this machine.
      attempts: How often a program is run before it counts as not failing; more than
        once only for failures that do not always show.
      repeats: How often a program has to fail in a row: as often as the original did,
        if it did every time.
      notes: What the user should know.
      suspects: Kinds of equations that did not run by themselves; see `values`.
      longest_s: The longest that a program took that came to an end.
      recent_s: What the last ones took.
      is_brief: Where failing takes the whole time limit, programs are not given all of it;
        what is found so has to be confirmed.
      n_lost: Jobs that were lost in a row, up to now.
      is_stopped: Nobody waits for its verdicts any more: nothing more is run.
    """

    keep: Keep
    executor: Executor | None = None
    attempts: int = 1
    repeats: int = 1
    notes: list[str] = field(default_factory=list)
    suspects: set[tuple[str, ...]] = field(default_factory=set)
    longest_s: float = 0.0
    recent_s: deque[float] = field(default_factory=lambda: deque(maxlen=N_RECENT))
    is_brief: bool = False
    n_lost: int = 0
    is_stopped: bool = False

    def judge(self, trial: Trial) -> Verdict:
        """Run a trial until it fails in the wanted way, `attempts` times at most.

        Where failures are to be sure, it then has to fail `repeats` times.
        """
        verdict = Verdict(False)
        for _ in range(max(1, self.attempts)):
            verdict = self._once(trial)
            if verdict.is_interesting:
                break
        for _ in range(self.repeats - 1):
            if not verdict.is_interesting:
                break
            verdict = self._once(trial)
        return verdict

    def judge_program(self, program: Program) -> bool:
        """Whether a program, written as equations, shows the failure."""
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
        """Run the jobs of a trial in turn, as far as the verdict depends on them.

        Where failing takes the whole time limit the control inputs come first: what hangs
        with these as well is rejected, and nobody waits for it twice.
        """
        outcomes: list[Outcome | None] = [None] * len(trial.jobs)
        decision = self.keep.decide(outcomes, trial.program)
        others: tuple[Outcome, ...] | None = None
        if self.keep.is_slow and decision is None:
            others = tuple(self.run(job) for job in trial.controls)
            if any(outcome.status == "timeout" for outcome in others):
                return Verdict(False)
        for i, job in enumerate(trial.jobs):
            if decision is not None:
                break
            outcomes[i] = outcome = self.run(job)
            if outcome.status == "lost":
                return Verdict(False, None, (outcome,), True)
            decision = self.keep.decide(outcomes, trial.program)
        seen = tuple(outcome for outcome in outcomes if outcome is not None)
        if decision:
            return self._controlled(trial, seen, others)
        return Verdict(False, self.keep.other_failure(seen) if seen else None, seen)

    def _controlled(
        self,
        trial: Trial,
        seen: tuple[Outcome, ...],
        others: tuple[Outcome, ...] | None = None,
    ) -> Verdict:
        """Demand of a program that fails that it does not with its control inputs.

        Args:
          trial: What failed.
          seen: What was seen of it.
          others: What was seen with the control inputs; they are run now if None.
        """
        if others is None:
            others = tuple(self.run(job) for job in trial.controls)
        if any(outcome.status == "lost" for outcome in others):
            return Verdict(False, None, others, True)
        is_fine = not others or self.keep.is_fine(others, trial.program)
        return Verdict(is_fine, None, seen)

    @property
    def waits_briefly(self) -> bool:
        """Whether what hangs is found so before all of its time is over."""
        return self.is_brief and self.keep.is_slow

    def _brief_s(self, limit_s: float) -> float:
        """Return the time limit of a program where nobody waits for all of it."""
        if not self.recent_s:
            return limit_s / BRIEF
        return min(limit_s, BRIEF_S + BRIEF * max(self.recent_s))

    def run(self, job: Job) -> Outcome:
        """Run one job; should the executor be gone, here."""
        if self.waits_briefly:
            limit_s = self._brief_s(job.run.timeout_s)
            job = replace(job, run=replace(job.run, timeout_s=limit_s))
        outcome = Outcome("lost", message="it was interrupted")
        for _ in range(1 + MAX_LOST):
            if outcome.status != "lost" or self.is_stopped:
                break
            outcome = self._run(job)
        self.n_lost = self.n_lost + 1 if outcome.status == "lost" else 0
        if outcome.status not in ("lost", "timeout"):
            self.recent_s.append(sum(outcome.seconds.values()))
            self.longest_s = max(self.longest_s, self.recent_s[-1])
        return outcome

    def check_workers(self) -> None:
        """Give up if no job comes back any more.

        Raises:
          Exhausted: If so.
        """
        if self.n_lost >= MAX_LOST_IN_A_ROW:
            raise Exhausted("workers kept failing")

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
