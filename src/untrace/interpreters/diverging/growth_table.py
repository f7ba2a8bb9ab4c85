"""A table of how an error grows, value by value, with a bar for each on a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rich.table import Table
from rich.text import Text

from untrace.interpreters.diverging.rows import BRANCH, TURNS, Row
from untrace.printable import printable

MAX_SHOWN = 40
"""How many values are shown; `Divergence.rows` holds all."""
BAR_COLS = 12
GROWTH = 2.0
"""By how much an error must have grown to be shown where not all are."""
_EIGHTHS = " ▏▎▍▌▋▊▉"
_SKIPPED = "…"


def growth_table(rows: Sequence[Row], first: Row | None) -> Table:
    """List values and their errors; of many those at which the error grows.

    Args:
      rows: The values.
      first: The first that is beyond the tolerance.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", width=1)
    for title in ("name", "variable", "line", "turn", "type"):
        table.add_column(title, overflow="fold")
    for title in ("abs. error", "rel. error", "ulps"):
        table.add_column(title, justify="right")
    table.add_column("", width=BAR_COLS)
    bar = _bars(rows)
    last = -1
    for number in _shown(rows, first):
        if number != last + 1:
            table.add_row("", _SKIPPED)
        last = number
        row = rows[number]
        style = "bold red" if row is first else "red" if row.is_beyond else ""
        # Not strings: what stands in brackets is no markup.
        cells = [Text(printable(text)) for text in _texts(row, row is first)]
        table.add_row(*cells, Text(bar(row)), style=style)
    if last + 1 < len(rows):
        table.add_row("", _SKIPPED)
    return table


def counted_ulps(number: float) -> str:
    """Write a number of units of the last place in few digits."""
    if number < 10 or number == math.inf:
        return f"{number:.2g}".replace("inf", "\N{INFINITY}")
    return f"{number:,.0f}" if number < 1e6 else f"{number:.1e}"


def _texts(row: Row, is_first: bool) -> list[str]:
    place = row.origin.place if row.origin else ""
    mark = "▶" if is_first else "•" if row.is_beyond else ""
    texts = [mark, row.name, row.variable, place, row.turn, row.type]
    d = row.distance
    if row.kind in (BRANCH, TURNS):
        return [
            *texts[:-1],
            "",
            f"{d.value!s} / {d.other!s}" if row.is_beyond else "",
            "",
            "",
        ]
    if d.what:
        return [*texts, row.other_type, "", ""]
    ulps = counted_ulps(d.ulps) if d.ulps else ""
    return [*texts, _number(d.abs), _number(d.rel), ulps]


def _number(value: float) -> str:
    if not value:
        return "0"
    return "\N{INFINITY}" if value == math.inf else f"{value:.1e}"


def _bars(rows: Sequence[Row]) -> Callable[[Row], str]:
    """Return what draws a bar, on a scale that all rows share."""
    logs = [math.log10(r.distance.rel) for r in rows if 0 < r.distance.rel < math.inf]
    low = min(logs, default=-8.0) - 1
    high = max(max(logs, default=0.0), low + 4)

    def bar(row: Row) -> str:
        error = row.distance.rel
        if not error:
            return ""
        share = 1.0 if error == math.inf else (math.log10(error) - low) / (high - low)
        eighths = max(1, round(share * BAR_COLS * 8))
        return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()

    return bar


def _shown(rows: Sequence[Row], first: Row | None) -> list[int]:
    """Choose the rows that are shown: where the error grows, and around the first."""
    if len(rows) <= MAX_SHOWN:
        return list(range(len(rows)))
    number = next((i for i, row in enumerate(rows) if row is first), 0)
    around = range(max(0, number - 2), min(len(rows), number + 3))
    chosen = {0, *around, len(rows) - 1}
    largest, grown = 0.0, list[int]()
    for i, row in enumerate(rows):
        if row.distance.rel > largest * GROWTH:
            largest = row.distance.rel
            grown.append(i)
    n_more = MAX_SHOWN - len(chosen)
    step = max(1, math.ceil(len(grown) / n_more))
    return sorted(chosen.union(grown[::-step]))
