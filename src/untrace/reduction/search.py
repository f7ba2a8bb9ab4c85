"""The one applier: tries candidates, keeps the smallest that fails, counts everything.

Passes produce candidates lazily; `Search` discards those that do not trace, are not
smaller, or were judged before, runs the others (several at once, if asked to) and
accepts the first, in the order they were given, that shows the failure. Results do not
depend on how many run at once.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.printable import reworded
from untrace.reduction.keeping.base import story
from untrace.reduction.outcome import Outcome
from untrace.reduction.program import Program
from untrace.reduction.remembering import by_identity
from untrace.reduction.sizes import Size, measure
from untrace.reduction.trials import (
    Exhausted,
    Judge,
    Trial,
    Verdict,
    can_fail,
    prepare,
)
from untrace.reduction.wording import counted
from untrace.reduction.workers import close_servers
from untrace.verification.fingerprint import fingerprint

MAX_EARLIER = 30
"""Accepted programs that are remembered, should the last not fail any more."""


@dataclass
class Stats:
    """What a reduction did.

    Attributes:
      runs: Programs that the predicate was asked about.
      accepted: Of those, how many failed in the wanted way.
      rejected: How many did not.
      duplicates: Candidates that had been judged before.
      untraceable: Candidates that JAX cannot trace, or that cannot fail.
      other_failures: How often which other failure was seen.
      recordings: Runs that recorded intermediate values.
      seconds: Wall time.
    """

    runs: int = 0
    accepted: int = 0
    rejected: int = 0
    duplicates: int = 0
    untraceable: int = 0
    other_failures: Counter[str] = field(default_factory=Counter)
    recordings: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Step:
    """An accepted candidate: when it was found, by which pass, and how large it is."""

    runs: int
    seconds: float
    pass_name: str
    size: Size


@dataclass(frozen=True)
class Limits:
    """When to stop with what there is; None is no limit."""

    runs: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class _Ready:
    program: Program
    size: Size
    digest: str
    trial: Trial | None
    """None if it is known to fail."""
    number: int
    """Of the candidate, among those that were given."""


Event = Callable[[str, dict[str, Any]], None]
Edit = tuple[object, Callable[[], Program | None]]
"""What a change of a program is called, and what makes it."""


class Search:
    """The state of a reduction.

    Attributes:
      best: The smallest program so far that fails.
      keep: The pinned predicate.
      stats: Counts.
      history: The accepted steps.
      verdicts: What is known of programs, by digest.
      pass_name: The pass that runs, for the history.
      others: The smallest program that fails in each other way.
      earlier: The last accepted programs.
      sure: The last program that was given all of its time, where failing takes that.
      unfit: Why candidates could not be run, which is no failure of the program.
      outcomes: What was seen of the best program, as far as it is known.
      settled: What was found by bisection, or grown in vain; it is not searched again.
      is_hurried: Somebody waits for the result: nothing more is to be run.
      n_passed: Candidates before the one that was accepted last.
      judged: When each program began to run, and when it ended.
      n_in_vain: Runs whose verdict came after another candidate had been accepted.
    """

    def __init__(
        self,
        start: Program,
        judge: Judge,
        jobs: int = 1,
        limits: Limits | None = None,
        notify: Event | None = None,
    ) -> None:
        self.best = start
        self.size = measure(start)
        self.judge = judge
        self.stats = Stats()
        self.history: list[Step] = []
        self.verdicts: dict[str, bool] = {}
        self.pass_name = "start"
        self.others: dict[str, Program] = {}
        self.earlier: deque[Program] = deque([start], maxlen=MAX_EARLIER)
        self.sure = start
        self.settled: set[object] = set()
        self.is_hurried = False
        self.n_passed = 0
        self.judged: list[tuple[float, float]] = []
        self.n_in_vain = 0
        self.unfit: Counter[str] = Counter()
        self.limits = limits or Limits()
        self.n_jobs = max(1, jobs)
        self.notify = notify or (lambda kind, facts: None)
        self._pool = ThreadPoolExecutor(self.n_jobs)
        self._late: list[tuple[_Ready, Future[Verdict]]] = []
        self._started = time.monotonic()
        self.outcomes: tuple[Outcome, ...] = ()

    @property
    def seconds(self) -> float:
        """Return the wall time so far."""
        return self.stats.seconds + time.monotonic() - self._started

    def close(self) -> None:
        """Let go of the threads; runs that are under way end by themselves."""
        self._count_late()
        self.stats.seconds = self.seconds
        self._started = time.monotonic()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def stop_running(self) -> None:
        """Let nothing run any more of what was begun; what is asked from now on is."""
        self.judge.is_stopped = True
        self.judge = replace(self.judge, is_stopped=False)
        close_servers()

    def make_sure(self) -> bool:
        """Run the best program for as long as a failure takes, if it was not yet.

        Should it come to an end, the search goes back to the last one that did not, and
        all are given that time from then on.

        Returns:
          Whether the best program is still the best.
        """
        if not self.judge.waits_briefly or self.best is self.sure:
            return True
        judge = replace(self.judge, is_brief=False)
        self.stats.runs += 1
        if judge.judge_program(self.best):
            self.sure = self.best
            self.notify("sure", {})
            return True
        self.judge = judge
        between = [p for p in self.earlier if p not in (self.sure, self.best)]
        self.fall_back(self.sure)
        for program in between:  # some of them may fail
            self.verdicts.pop(self.digest(program), None)
        return False

    @property
    def to_confirm(self) -> list[Program]:
        """List the programs that may be the result, best first."""
        if self.judge.waits_briefly:
            return list(dict.fromkeys((self.best, self.sure)))
        return [*reversed(self.earlier)]

    def fall_back(self, program: Program) -> None:
        """Go back to an earlier program: those after it do not fail any more."""
        while self.earlier and self.earlier[-1] is not program:
            self.verdicts[self.digest(self.earlier.pop())] = False
        self.earlier.extend(() if self.earlier else (program,))
        self.best, self.size = program, measure(program)
        self.outcomes = ()
        while self.history and self.history[-1].size < self.size:
            self.history.pop()

    def go_on(self) -> None:
        """Search again after `close`."""
        self._pool = ThreadPoolExecutor(self.n_jobs)

    def enter(self, name: str) -> None:
        """Begin a pass."""
        self.pass_name = name
        self.notify("pass", {"name": name})

    def note(self, text: str) -> None:
        """Keep what the user should know, once."""
        if text not in self.judge.notes:
            self.judge.notes.append(text)

    def digest(self, program: Program) -> str:
        """Name a program and its input values, whatever its variables are called.

        Without the values, where they do not matter: before a program runs.
        """
        digest = hashlib.sha256(fingerprint(program.block.jaxpr).encode())
        if self.judge.keep.needs_values:
            for value in (*program.values, *(program.controls or ())):
                digest.update(_value_digest(value))
        return digest.hexdigest()[:32]

    # ---- candidates ----------------------------------------------------------------

    def first(self, candidates: Iterable[Program | None]) -> bool:
        """Accept the first candidate that is smaller and fails; say if there was one."""
        self._count_late()
        ready = self._ready(candidates)
        running: deque[tuple[_Ready, Future[Verdict]]] = deque()
        is_over = False
        waiting: _Ready | None = None
        while True:
            while len(running) < self.n_jobs and not is_over:
                item = waiting or next(ready, None)
                waiting = None
                if item is None:
                    is_over = True
                else:
                    running.append((item, self._pool.submit(self._judge, item)))
            if not running:
                return False
            if waiting is None and not is_over:
                waiting = next(ready, None)  # made while the others run
                is_over = waiting is None
            item, future = running.popleft()
            if self._settle(item, future.result()):
                self.n_passed = item.number
                self._late += [(o, p) for o, p in running if not p.cancel()]
                return True

    def _count_late(self) -> None:
        """Count runs in vain that have ended: nobody waits for them."""
        late, self._late = self._late, []
        for other, pending in late:
            if pending.done():
                self._count(other, pending.result())
                self.n_in_vain += 1
            else:
                self._late.append((other, pending))

    def simplify(self, edits: Callable[[Program], Iterable[Edit]]) -> None:
        """Accept edits of what a program holds, as long as that helps.

        An edit that was refused is not tried again while the equations stay the same.

        Args:
          edits: Lists them for the best program, each with its name.
        """
        is_found = True
        while is_found:
            tried: list[object] = []
            is_found = self.first(self._untried(edits(self.best), tried))
            self.settled.update(tried[: self.n_passed + 1] if is_found else tried)

    def _untried(
        self, edits: Iterable[Edit], tried: list[object]
    ) -> Iterator[Program | None]:
        equations = fingerprint(self.best.block.jaxpr)
        for name, make in edits:
            key = (equations, name)
            if key not in self.settled:
                tried.append(key)
                yield make()

    def smallest(
        self, low: int, high: int, make: Callable[[int], Program | None]
    ) -> int:
        """Find the smallest k, low < k < high, for which `make(k)` fails, by bisection.

        The failure is taken to be monotone: if it shows at k, it does above. What is
        accepted was run in any case. Where a time is measured there is no exact k, and
        the search ends early. What comes next if a candidate is refused is run beside it,
        if several may run at once.

        Returns:
          That k, or `high`.
        """
        is_measured = self.judge.keep.is_measured
        while True:
            gap = max(1, high // 8) if is_measured else 1
            rising = _halves(low, high, gap)
            if not self.first(map(make, rising)):
                return high
            low, high = [low, *rising][self.n_passed], rising[self.n_passed]

    def _ready(self, candidates: Iterable[Program | None]) -> Iterator[_Ready]:
        asked: set[str] = set()  # also what still runs while the next is made ready
        for number, program in enumerate(candidates):
            if program is None:
                self.stats.untraceable += 1
                continue
            size = measure(program)
            if not size < self.size:
                continue
            if not can_fail(program, self.judge.keep):
                self.stats.untraceable += 1
                continue
            try:
                digest = self.digest(program)
                is_known = digest in self.verdicts or digest in asked
                asked.add(digest)
                self.stats.duplicates += is_known
                if is_known:
                    if self.verdicts.get(digest):
                        yield _Ready(program, size, digest, None, number)
                    continue
                trial = prepare(program, self.judge.keep)
            except Exception as error:  # this candidate is lost, and no other
                self.stats.untraceable += 1
                self.note(f"a candidate cannot be written: {reworded(str(error))}")
                continue
            if trial is None:
                self.stats.untraceable += 1
                continue
            yield _Ready(program, size, digest, trial, number)

    def _settle(self, item: _Ready, verdict: Verdict) -> bool:
        self._count(item, verdict)
        if verdict.is_interesting and item.size < self.size:
            self.best, self.size = item.program, item.size
            self.outcomes = verdict.outcomes or self.outcomes
            self.earlier.append(item.program)
            self.history.append(
                Step(self.stats.runs, self.seconds, self.pass_name, item.size)
            )
            self.notify("accepted", {"digest": item.digest})
        self._check_limits()
        return verdict.is_interesting

    def _count(self, item: _Ready, verdict: Verdict) -> None:
        if item.trial is None:
            return
        self.stats.runs += 1
        if verdict.is_lost:
            return
        self.verdicts[item.digest] = verdict.is_interesting
        if verdict.is_interesting:
            self.stats.accepted += 1
        else:
            self.stats.rejected += 1
        for outcome in verdict.outcomes:
            if outcome.is_ours:
                self.unfit[story(outcome)] += 1
        if verdict.other is not None:
            self.stats.other_failures[verdict.other] += 1
            kept = self.others.get(verdict.other)
            if kept is None or item.size < measure(kept):
                self.others[verdict.other] = item.program
        self.notify(
            "judged", {"digest": item.digest, "verdict": verdict.is_interesting}
        )

    def _judge(self, item: _Ready) -> Verdict:
        if item.trial is None:
            return Verdict(True)
        began = time.monotonic()
        try:
            return self.judge.judge(item.trial)
        finally:
            self.judged.append((began, time.monotonic()))

    def at_once(self) -> str:
        """Say what it brought to run several programs at once, and what hinders it."""
        searched_s = self.stats.seconds
        if self.n_jobs == 1 or not searched_s:
            return ""
        share = sum(end - began for began, end in self.judged) / searched_s
        none = 1 - _covered_s(self.judged) / searched_s
        said = (
            f"Of {self.n_jobs} jobs at once {share:.1f} ran on average, and "
            f"{counted(self.n_in_vain, 'run')} in vain. None ran for {none:.0%} of the "
            "search: candidates are made one after the other, and many wait for the "
            "verdict on the one before."
        )
        n_cores = os.cpu_count() or 1
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
        if load > n_cores + self.n_jobs:
            said += (
                f" Other programs use this machine ({load:.0f} want to run, on "
                f"{counted(n_cores, 'core')}), so that more jobs may not be faster."
            )
        return said

    def _check_limits(self) -> None:
        if self.limits.runs is not None and self.stats.runs >= self.limits.runs:
            raise Exhausted(f"{self.limits.runs} runs were made")
        if self.limits.seconds is not None and self.seconds >= self.limits.seconds:
            raise Exhausted(f"{self.limits.seconds:g} seconds have passed")
        self.judge.check_workers()


def _covered_s(intervals: Iterable[tuple[float, float]]) -> float:
    """Return the time that lies in at least one of several intervals.

    >>> _covered_s([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    4.0
    """
    total, reached = 0.0, 0.0
    for began, end in sorted(intervals):
        total += max(0.0, end - max(began, reached))
        reached = max(reached, end)
    return total


def _halves(low: int, high: int, gap: int) -> list[int]:
    """List what a bisection asks about as long as the answer is no.

    >>> _halves(0, 10, 1)
    [5, 7, 8, 9]
    """
    found: list[int] = []
    while high - low > gap:
        low = (low + high) // 2
        found.append(low)
    return found


@by_identity
def _value_digest(value: Any) -> bytes:
    if jaxapi.is_key_array(value):
        value = jax.random.key_data(value)
    array = np.asarray(value)
    digest = hashlib.sha256(f"{array.dtype}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.digest()
