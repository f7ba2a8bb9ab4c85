"""What a person sees while a reduction runs, or a machine reads.

`Progress` draws a live panel on a terminal: how the size fell, the pass, counts, runs
per second and, once the search is in its last tier, how far it is. `JsonEvents` writes
one JSON object per line instead.
"""

from __future__ import annotations

import json
import time
from typing import Any, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from untrace.reduction.search import Search
from untrace.reduction.wording import counted, duration

BARS = "▁▂▃▄▅▆▇█"
WIDTH_COLS = 48


class Progress:
    """A live panel on standard error; silent where that is no terminal."""

    def __init__(self, console: Console, start: int = 0) -> None:
        self.console = console
        self.start = start
        self._search: Search | None = None
        self._stage = "trace the function"
        self._live = Live(
            console=console,
            get_renderable=self._draw,
            refresh_per_second=4,
            transient=True,
        )

    def __enter__(self) -> Progress:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *unused: object) -> None:
        if self._live.is_started:
            self._live.stop()

    def __call__(self, kind: str, facts: dict[str, Any]) -> None:
        """Receive an event."""
        self._search = facts.get("search", self._search)
        if kind == "stage":
            self._stage = facts["name"]

    def _draw(self) -> RenderableType:
        search = self._search
        if search is None:
            return Text(f"{self._stage} ...", style="dim")
        return Group(_curve(search, self.start), _counts(search))


def _curve(search: Search, start: int) -> Text:
    """Draw the size after each run so far, one character per stretch of runs."""
    sizes: list[int] = []
    steps = [(0, start), *((s.runs, s.size.equations) for s in search.history)]
    total = max(search.stats.runs, 1)
    for column in range(WIDTH_COLS):
        at = total * (column + 1) / WIDTH_COLS
        sizes.append([size for runs, size in steps if runs <= at][-1])
    text = Text("  ")
    for size in sizes:
        share = size / max(start, 1)
        text.append(BARS[min(7, int(share * 8))], style="cyan")
    equations = counted(search.size.equations, "equation")
    text.append(f"  {start:,} → {equations}", style="bold")
    return text


def _counts(search: Search) -> Table:
    stats = search.stats
    rate = stats.runs / search.seconds if search.seconds else 0.0
    table = Table.grid(padding=(0, 3))
    table.add_row(
        Text(f"  {search.pass_name}", style="cyan"),
        f"{counted(stats.runs, 'run')} ({rate:.1f}/s, {duration(search.seconds)})",
        f"[green]{stats.accepted} accepted[/] {stats.rejected} rejected "
        f"{stats.duplicates} known",
        f"[yellow]{counted(stats.other_failures.total(), 'other failure')}[/]"
        if stats.other_failures
        else "",
        _estimate(search),
    )
    return table


def _estimate(search: Search) -> str:
    """Guess the runs that are left, from how many the last steps take."""
    size = search.size
    left = 2 * size.equations + size.outputs + 2 * size.axes + 4 * size.inputs
    rate = search.stats.runs / max(search.seconds, 1e-9)
    if search.size.equations > 30 or not rate:
        return ""
    return f"[dim]at most about {duration(left / rate)} left[/]"


class JsonEvents:
    """Write every event as a line of JSON."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._started = time.monotonic()

    def __enter__(self) -> JsonEvents:
        return self

    def __exit__(self, *unused: object) -> None:
        self.stream.flush()

    def __call__(self, kind: str, facts: dict[str, Any]) -> None:
        """Receive an event."""
        search = facts.get("search")
        plain = {key: value for key, value in facts.items() if key != "search"}
        event = {"event": kind, "seconds": round(time.monotonic() - self._started, 3)}
        if isinstance(search, Search):
            event |= {
                "pass": search.pass_name,
                "runs": search.stats.runs,
                "equations": search.size.equations,
                "accepted": search.stats.accepted,
                "rejected": search.stats.rejected,
                "duplicates": search.stats.duplicates,
            }
        self.stream.write(json.dumps(event | plain) + "\n")
        self.stream.flush()
