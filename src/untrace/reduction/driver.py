"""From a failing program to the smallest one: pin the failure, search, confirm.

The failure is looked for in the emitted text, in fresh processes, before anything else;
a reduction that could not end with a file that fails does not begin.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from untrace.errors import KeepError
from untrace.options import Options
from untrace.reduction.applying import program_from
from untrace.reduction.circumstances import configured
from untrace.reduction.controls import with_control
from untrace.reduction.interrupts import Interrupts
from untrace.reduction.journal import Journal
from untrace.reduction.keeping import Keep
from untrace.reduction.keeping.automatic import Auto, shown_by
from untrace.reduction.keeping.base import story
from untrace.reduction.keeping.validity import Lowers, is_lowered
from untrace.reduction.keeping.values import Differs
from untrace.reduction.outcome import Outcome
from untrace.reduction.program import Program
from untrace.reduction.search import (
    Event,
    Limits,
    Search,
)
from untrace.reduction.tiers import run_all
from untrace.reduction.trials import Exhausted, Judge, Trial, Verdict, prepare
from untrace.reduction.writing import stand_ins, written

INTERRUPTED = "it was interrupted"
RUN_AGAIN = "run it once more"
UNSURE = (
    "It does not show in every run, so it is not told with which inputs it is fine."
)
PATIENCE = 10
"""Times as long as other runs that the first may take to find out what is to blame."""

MISS = 0.01
"""Probability with which a failure that does not always show may be missed."""

MAX_ATTEMPTS = 20
LIKELY_CAUSES = (
    "the failure happens before JAX has a program (while Python traces the function): "
    "keep it with under='grad' or another transformation of a function that traces",
    "it depends on values that were not given (`jax.ShapeDtypeStruct`) or that change "
    "from run to run (`confirm=10` for failures that do not always show)",
    "it depends on environment variables, devices or settings of this process that a "
    "new one does not have",
)
_OF_THE_HOST = (
    "It calls functions of the host that a new process cannot import: {}. In its text they "
    "have stand-ins, which return zeros and raise nothing: what they raise or return is "
    "not kept. A function of your own is called if it is defined at the top level of a "
    "module that can be imported.\nWith the stand-ins: {}"
)


@dataclass(frozen=True)
class Plan:
    """How a reduction is carried out.

    Attributes:
      jobs: Candidates that run at once.
      confirm: Runs of the original; more find out how often a failure shows.
      executor: Where jobs run; None: in workers on this machine.
      limits: When to stop with what there is.
      notify: Receives events.
      control: "auto": demand that failures of values depend on the inputs; "none".
      interrupts: Of the user.
    """

    jobs: int = 1
    confirm: int = 1
    executor: Executor | None = None
    limits: Limits = field(default_factory=Limits)
    notify: Event | None = None
    control: str = "auto"
    interrupts: Interrupts = field(default_factory=Interrupts)

    def tell(self, kind: str, facts: dict[str, Any]) -> None:
        """Tell of an event, if somebody listens."""
        if self.notify is not None:
            self.notify(kind, facts)

    def begin(self, stage: str) -> None:
        """Tell of what is done before there is a search."""
        self.tell("stage", {"name": stage})


@dataclass(frozen=True)
class Pinned:
    """The failure of the original.

    Attributes:
      keep: The pinned predicate.
      attempts: Runs after which a program counts as not failing.
      rate: How often the original failed, of the runs that were made.
      repeats: How often candidates have to fail in a row: as often as the original, if
        it failed every time.
      outcomes: What was seen.
    """

    keep: Keep
    attempts: int
    rate: float
    repeats: int = 1
    outcomes: tuple[Outcome, ...] = ()


def pin(program: Program, keep: Keep, plan: Plan) -> Pinned:
    """Run the text of the original and pin what fails.

    Where it does not fail, it is run again with what this process was told beyond its
    environment (`jax.config.update`).

    Raises:
      KeepError: If it does not fail, or if everything does.
    """
    try:
        return _pinned(program, keep, plan)
    except KeepError:
        for other in configured(keep):
            if shows(program, other, plan):
                return _pinned(program, other, plan)
        raise


def _looked_into(
    outcomes: Sequence[Outcome], trial: Trial, judge: Judge
) -> tuple[Outcome, ...]:
    """Give what was cut off more time: a failure that is pinned loosely is another one."""
    found: list[Outcome] = []
    for job, outcome in zip(trial.jobs, outcomes):
        if outcome.is_cut:
            run = replace(job.run, timeout_s=PATIENCE * job.run.timeout_s)
            longer = judge.run(replace(job, run=run))
            outcome = longer if longer.status == outcome.status else outcome
        found.append(outcome)
    return tuple(found)


def _pinned(program: Program, keep: Keep, plan: Plan) -> Pinned:
    judge = Judge(keep, plan.executor)
    trial = prepare(program, keep)
    if trial is None:
        raise KeepError(
            "the program cannot be written or typed as the predicate needs it"
        )
    verdicts = [judge.everything(trial) for _ in range(max(1, plan.confirm))]
    failed = [verdict for verdict in verdicts if verdict.is_interesting]
    if not failed and all(verdict.is_lost for verdict in verdicts):
        why = verdicts[-1].outcomes[-1].message
        raise KeepError(f"worker processes cannot be run: {why}")
    if not failed:
        other = keep.otherwise(program)
        if other is not None and shows(program, other, plan):
            return _pinned(program, other, plan)
        raise KeepError(_not_reproduced(program, keep, verdicts, judge))
    seen = _looked_into(failed[0].outcomes, trial, judge)
    pinned = keep.pinned(seen, program)
    rate = len(failed) / len(verdicts)
    repeats = len(verdicts) if rate == 1 else 1
    pinned = _closer(program, keep, pinned or keep, plan)
    found = Pinned(pinned, _attempts(rate), rate, repeats, seen)
    _check_not_always(found.keep, plan)
    if is_lowered(keep.runs, seen) or not shows(program, Lowers(), plan):
        return found
    return replace(found, keep=found.keep & Lowers())


def _closer(program: Program, keep: Keep, pinned: Keep, plan: Plan) -> Keep:
    """Pin what only a run of its own tells, if it does."""
    for closer in keep.closer(pinned):
        trial = prepare(program, closer)
        if trial is None:
            continue
        outcomes = Judge(closer, plan.executor).everything(trial).outcomes
        if closer.holds(outcomes, program):
            return closer.pinned(outcomes, program) or pinned
    return pinned


def shows(program: Program, keep: Keep, plan: Plan) -> bool:
    """Whether a program fails as a predicate wants."""
    trial = prepare(program, keep)
    return trial is not None and Judge(keep, plan.executor).judge(trial).is_interesting


def controlled(program: Program, pinned: Pinned, plan: Plan) -> tuple[Program, str]:
    """Find control inputs, if they are wanted; see `controls.with_control`."""
    if plan.control == "none":
        return program, ""
    if pinned.rate < 1 and pinned.keep.depends_on_values:
        return program, UNSURE
    judge = Judge(pinned.keep, plan.executor, is_brief=True)
    return with_control(program, pinned.keep, judge)


def _attempts(rate: float) -> int:
    """Count the runs after which a failure of this rate has shown, almost certainly."""
    if rate >= 1:
        return 1
    return min(MAX_ATTEMPTS, math.ceil(math.log(MISS) / math.log(1 - rate)))


def _not_reproduced(
    program: Program, keep: Keep, verdicts: list[Verdict], judge: Judge
) -> str:
    ours = [o for verdict in verdicts for o in verdict.outcomes if o.is_ours]
    if ours:
        return (
            f"{keep} cannot be judged: {story(ours[0])}\n"
            "This is no failure of the program, which was traced before. If the text "
            "needs devices, settings or packages that a new process does not have, give "
            "them with env={...}; otherwise please report it."
        )
    source = written(program, Options("lax"))
    strength = source.report.strength
    absent = stand_ins(source)
    n = len(verdicts)
    times = "" if n == 1 else f" in {n} runs"
    nothing = f"the program does not show the failure{times}: {keep}."
    if absent:
        told = story(verdicts[-1].outcomes[-1])
        return f"{nothing}\n{_OF_THE_HOST.format(', '.join(absent), told)}"
    if strength == "identical":
        is_same = "which traces to the very same equations. Likely causes"
    else:
        is_same = (
            f"but the text is {strength}: this is the first thing to look at (and a bug "
            "of untrace; please report it). Other causes"
        )
    causes = "\n".join(f"  - {cause};" for cause in LIKELY_CAUSES)
    return (
        f"{nothing}\n{keep.explain(verdicts[-1].outcomes)}\n"
        f"{_proposal(program, keep, verdicts, judge)}"
        f"It was run in a fresh process as Python text, {is_same}:\n{causes}\n"
        "  - the predicate is stricter than what happens: loosen it."
    )


def _proposal(
    program: Program, keep: Keep, verdicts: list[Verdict], judge: Judge
) -> str:
    """Name the predicate that holds instead, if something else fails."""
    for run, outcome in zip(keep.runs, verdicts[-1].outcomes):
        how = {"under": run.under, "env": run.env, "timeout_s": run.timeout_s}
        seen = shown_by(outcome, **how) if run.action in ("jit", "compile") else None
        if seen is not None and outcome.status != "timeout":
            if type(seen) is type(keep):  # its details are what was refused
                seen = (seen.pinned((outcome,), program) or seen).plain()
            return f"What does fail is kept by {seen}, or by auto().\n"
    if any(run.under is not None for run in keep.runs):
        return ""
    for said, other in (
        ("Its gradient does fail: that", Auto(under="grad")),
        ("In 64 bits it gives other values, which", Differs(b="float64", rtol=0.1)),
    ):
        trial = prepare(program, other)
        outcomes = () if trial is None else judge.everything(trial).outcomes
        found = other.pinned(outcomes, program) if outcomes else None
        if found is not None:
            return f"{said} is kept by {found.plain()}.\n"
    return ""


def _check_not_always(keep: Keep, plan: Plan) -> None:
    """Refuse a predicate that holds for a program that does nothing.

    Raises:
      KeepError: If it does.
    """
    if not keep.runs:  # what a program contains is always said precisely
        return
    values = (np.float32(0.5),)
    jaxpr = jax.make_jaxpr(lambda x: x + 1)(*values)
    if shows(program_from(jaxpr, values, ("x",), "nothing"), keep, plan):
        raise KeepError(
            f"{keep} holds for `x + 1` as well: every program would be reduced to "
            "nothing. Say more precisely what fails."
        )


def search_smallest(
    program: Program,
    pinned: Pinned,
    plan: Plan,
    journal: Journal | None = None,
    earlier: Search | None = None,
) -> tuple[Search, str]:
    """Make a program smaller until nothing helps, or somebody stops it.

    Returns:
      The search, and why it ended early ("" if it did not).
    """
    judge = Judge(
        pinned.keep, plan.executor, pinned.attempts, pinned.repeats, is_brief=True
    )
    search = earlier or Search(program, judge, plan.jobs, plan.limits)
    search.outcomes = search.outcomes or pinned.outcomes
    search.notify = _noting(search, plan, journal)
    why = ""
    try:
        with plan.interrupts.raised():
            run_all(search)
    except Exhausted as limit:
        why = str(limit)
    except KeyboardInterrupt:
        why = INTERRUPTED
        search.notify("interrupted", {})
        search.stop_running()
    search.close()
    return search, why


def hurry(search: Search) -> None:
    """Have nothing more run, as somebody waits for what there is."""
    search.notify("hurried", {})
    search.stop_running()
    search.is_hurried = True


def _noting(search: Search, plan: Plan, journal: Journal | None) -> Event:
    def notify(kind: str, facts: dict[str, Any]) -> None:
        if journal is not None:
            if kind == "judged":
                journal.note(kind, facts)
            elif kind == ("sure" if search.judge.waits_briefly else "accepted"):
                journal.keep(search.best, progress_facts(search))
        if plan.notify is not None:
            plan.notify(kind, {**facts, "search": search})

    return notify


def progress_facts(search: Search) -> dict[str, Any]:
    """Describe how far a search is, for the journal."""
    stats = search.stats
    return {
        "runs": stats.runs,
        "accepted": stats.accepted,
        "rejected": stats.rejected,
        "duplicates": stats.duplicates,
        "untraceable": stats.untraceable,
        "recordings": stats.recordings,
        "others": dict(stats.other_failures),
        "seconds": round(search.seconds, 3),
        "history": [
            [s.runs, round(s.seconds, 3), s.pass_name, list(s.size)]
            for s in search.history
        ],
    }


UNCONFIRMED = "The result was not run once more."
MAX_FALLS = 3
"""Times that a search goes on from an earlier program, as the last failed no more."""


def search_and_confirm(
    program: Program,
    pinned: Pinned,
    plan: Plan,
    journal: Journal,
    earlier: Search | None = None,
) -> tuple[Search, Program, Verdict, str]:
    """Search, and run the result again; should it not fail any more, search on.

    Returns:
      The search, its best program, which failed once more, what was seen, and why it
      ended early. After a second interrupt, or if no worker can be had, it was not run
      once more.

    Raises:
      KeepError: If none of the last programs fails any more.
    """
    search, why = search_smallest(program, pinned, plan, journal, earlier)
    n_falls = 0
    while True:
        try:
            with plan.interrupts.raised(after=1):
                search.enter(RUN_AGAIN)
                found, verdict = confirmed(search, pinned)
        except KeyboardInterrupt:
            hurry(search)
            return search, search.best, Verdict(True, None, search.outcomes), why
        if found is search.best:
            return search, found, verdict, why
        search.fall_back(found)
        search.judge = replace(search.judge, is_brief=False)
        if why or n_falls == MAX_FALLS:
            return search, found, verdict, why
        n_falls += 1
        search.go_on()
        search, why = search_smallest(found, pinned, plan, journal, search)


def confirmed(search: Search, pinned: Pinned) -> tuple[Program, Verdict]:
    """Return the smallest program that still fails when it is run once more.

    Raises:
      KeepError: If none of the last ones does any more.
    """
    is_sure = pinned.rate == 1 and not pinned.keep.is_measured
    attempts = pinned.attempts if is_sure else max(3, pinned.attempts)
    judge = replace(search.judge, attempts=attempts, is_brief=False)
    for program in search.to_confirm:
        trial = prepare(program, pinned.keep)
        if trial is None:
            continue
        verdict = judge.judge(trial)
        if verdict.is_lost:
            search.note(f"No worker could be had. {UNCONFIRMED}")
            return search.best, Verdict(True, None, search.outcomes)
        if verdict.is_interesting:
            return program, verdict
    raise KeepError(
        "the programs that failed do not any more: the failure may depend on the state "
        "of the machine. The last one is in the journal."
    )
