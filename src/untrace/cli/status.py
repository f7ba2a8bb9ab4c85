"""What a command is doing, on standard error, if that is a terminal.

Work of more than two seconds has a bar, and an estimate of what is left. How long the parts
of a job take beside each other is known from what they took before; the text may be written
and verified several times, of which each time gets the most of what is left of the bar. How
much there is to trace only the function knows: what was traced is counted, and what follows
takes at least so many times as long as that did so far.
"""

from __future__ import annotations

from rich.console import RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from untrace.cli.messages import ERR
from untrace.printable import printable

QUIET_SECONDS = 2.0
"""Work that takes no longer needs no bar."""

PARTS = {
    "tracing": (0.0, 0.4),
    "tracing at other sizes": (0.3, 0.6),
    "writing": (0.4, 0.7),
    "verifying": (0.7, 0.95),
    "comparing at other sizes": (0.95, 1.0),
}
"""Where the stages of a job begin and end, of all of it: verifying takes as long as writing."""

MOST_TRACING = 0.6
"""Of a job, of which tracing takes no more: calls are recorded meanwhile."""

LEAST_KNOWN = 0.05
"""Of a job, after which what is left can be told."""


class Share:
    """How much of a job is done, from how far its stages are; it never goes back."""

    def __init__(self) -> None:
        self.done = 0.0
        self._start, self._end = 0.0, 0.0
        self._round, self._latest = 0.0, ""

    def update(self, stage: str, done: int, total: int) -> None:
        """Take note of how far a stage is."""
        if stage != self._latest:
            self._begin(stage)
        part = min(done / total, 1.0) if total else 0.0
        self.done = max(self.done, self._start + (self._end - self._start) * part)

    def _begin(self, stage: str) -> None:
        first, last = PARTS.get(stage, (0.0, 0.0))
        before = PARTS.get(self._latest, (0.0, 0.0))
        self._latest = stage
        if first < before[0]:  # it is written once more
            self._round = self.done
        rest = 1.0 - self._round
        self._start = max(self.done, self._round + rest * first)
        self._end = max(self.done, self._round + rest * last)

    def seconds_left(self, elapsed: float) -> float | None:
        """Return how long it will take still; None if nobody can tell."""
        if self.done < LEAST_KNOWN:
            return None
        return elapsed * (1.0 - self.done) / self.done

    def is_tracing(self) -> bool:
        """Whether the function is traced for the first time, so that nobody can tell."""
        return self._latest == "tracing" and not self.done


class _LateBar(ProgressColumn):
    """A bar that is there for long work only."""

    def __init__(self) -> None:
        super().__init__()
        self._bar = BarColumn(bar_width=24)

    def render(self, task: Task) -> RenderableType:
        """Draw the bar."""
        is_short = (task.elapsed or 0.0) < QUIET_SECONDS
        return Text("") if is_short else self._bar.render(task)


class _Left(ProgressColumn):
    """How long it will take still; between two reports of progress it counts down."""

    def render(self, task: Task) -> RenderableType:
        """Write it, if it is known."""
        told, elapsed = task.fields["left"], task.elapsed or 0.0
        if task.fields["is_tracing"]:
            least = elapsed * (1.0 - MOST_TRACING) / MOST_TRACING
            return Text(left(least, elapsed, "at least"))
        if told is None:
            return Text("")
        return Text(left(max(told + task.fields["at"] - elapsed, 0.0), elapsed))


class Status:
    """The stage and the time since the start, on standard error, if it is a terminal."""

    def __init__(self) -> None:
        columns = (
            SpinnerColumn(),
            TimeElapsedColumn(),
            _LateBar(),
            _Left(),
            TextColumn("{task.description}"),
        )
        self._shown = Progress(
            *columns, console=ERR, transient=True, disable=not ERR.is_terminal
        )
        self._share = Share()
        self._task = self._shown.add_task(
            "tracing", total=1.0, left=None, at=0.0, is_tracing=False
        )

    def __enter__(self) -> Status:
        self._shown.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._shown.stop()

    def update(self, stage: str, done: int = 0, total: int = 0) -> None:
        """Show what is being done, and how much of it is."""
        self._share.update(stage, done, total)
        elapsed = self._shown.tasks[0].elapsed or 0.0
        said = f"{stage} ({done:,} of {total:,})" if 0 < done < total else stage
        said = f"{stage} ({done:,} so far)" if done and not total else said
        self._shown.update(
            self._task,
            description=printable(said),
            completed=self._share.done,
            left=self._share.seconds_left(elapsed),
            at=elapsed,
            is_tracing=self._share.is_tracing(),
        )


def left(seconds: float | None, elapsed: float, how: str = "about") -> str:
    """Say how long it will take still; "" for short work.

    >>> left(75.2, 10.0), left(4.2, 10.0), left(None, 10.0), left(9.0, 1.0)
    ('about 1 min 15 s left', 'about 4 s left', '', '')
    >>> left(16.0, 4.0, "at least")
    'at least 16 s left'
    """
    if seconds is None or elapsed < QUIET_SECONDS:
        return ""
    minutes, rest = divmod(max(round(seconds), 1), 60)
    return f"{how} {minutes} min {rest} s left" if minutes else f"{how} {rest} s left"
