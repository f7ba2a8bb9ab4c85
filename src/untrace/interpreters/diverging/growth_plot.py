"""Draw how an error grows, value by value: a standalone SVG with a logarithmic scale."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from itertools import pairwise

from untrace.interpreters.diverging.rows import Row
from untrace.printable import printable

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 76, 28, 64, 52
MAX_POINTS = 600
"""Points that are drawn; of longer runs the worst of each stretch."""
MAX_LABEL = 90
STYLE = """
.untrace-growth{background:#fff;max-width:100%;height:auto}
.untrace-growth .ground{fill:#fff}.untrace-growth text{font-size:12px;fill:#555}
.untrace-growth .title{font-size:15px;fill:#222}
.untrace-growth .grid{stroke:#e3e3e3}.untrace-growth .path{fill:none;stroke:#9aa7b5;opacity:.55}
.untrace-growth .same{fill:#9aa7b5}.untrace-growth .small{fill:#3b6ea5}
.untrace-growth .beyond{fill:#c8553d}.untrace-growth .limit{stroke:#588157;stroke-dasharray:5 4}
.untrace-growth .first{fill:none;stroke:#c8553d;stroke-width:1.6}
.untrace-growth .mark{fill:#a33a25;font-weight:600}
.untrace-growth .limits{fill:#48703f;stroke:#fff;stroke-width:3;paint-order:stroke}
@media (prefers-color-scheme:dark){.untrace-growth{background:#1d1f23}
.untrace-growth .ground{fill:#1d1f23}.untrace-growth text{fill:#b4b8be}
.untrace-growth .title{fill:#f0f0f0}.untrace-growth .grid{stroke:#35383e}
.untrace-growth .small{fill:#7fb0e6}.untrace-growth .beyond{fill:#ff8a6b}
.untrace-growth .first{stroke:#ff8a6b}.untrace-growth .mark{fill:#ff9f85}
.untrace-growth .limit{stroke:#8fc07f}.untrace-growth .limits{fill:#9fd08f;stroke:#1d1f23}}
"""


def growth_svg(
    rows: Sequence[Row], first: int | None, title: str, limits: Sequence[float]
) -> str:
    """Draw the relative errors of values in the order of the program.

    Args:
      rows: The values.
      first: Which is the first beyond the tolerance.
      title: Written above.
      limits: The tolerances that hold, relative, as lines.
    """
    errors = [row.distance.rel for row in rows]
    scale = _Scale(len(rows), [*errors, *limits])
    parts = [_frame(title), *_error_axis(scale), *_value_axis(len(rows), scale)]
    heights = [(limit, scale.y(limit)) for limit in limits if limit > 0]
    parts += [_line("limit", LEFT, WIDTH - RIGHT, y) for _, y in heights]
    shown = _shown(errors, first)
    points = " ".join(f"{scale.x(i):.1f},{scale.y(errors[i]):.1f}" for i in shown)
    parts.append(f'<polyline class="path" points="{points}"/>')
    parts += [_point(i, rows[i], scale) for i in shown]
    for limit, y in heights:
        said = f"tolerance {limit:.2g}"
        parts.append(_text(WIDTH - RIGHT, y - 5, said, "limits", "end"))
    if first is not None:
        parts += _marked(first, rows[first], scale)
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Scale:
    """Where on the page values and errors are; what is equal is on the lowest line."""

    def __init__(self, n: int, errors: Sequence[float]) -> None:
        logs = [math.log10(e) for e in errors if 0 < e < math.inf]
        self.low = math.floor(min(logs, default=-8.0))
        self.high = max(math.ceil(max(logs, default=0.0)), self.low + 2)
        self.is_endless = any(e == math.inf for e in errors)
        self._n = max(n - 1, 1)

    def x(self, index: float) -> float:
        width = WIDTH - LEFT - RIGHT - 24
        return LEFT + 12 + width * index / self._n

    def y(self, error: float) -> float:
        bottom, top = HEIGHT - BOTTOM - 26, TOP + (22 if self.is_endless else 0)
        if error <= 0:
            return HEIGHT - BOTTOM - 8
        if error == math.inf:
            return TOP + 4
        share = (math.log10(error) - self.low) / (self.high - self.low)
        return bottom - (bottom - top) * share


def _shown(errors: Sequence[float], first: int | None) -> list[int]:
    """Choose what is drawn: the worst value of each stretch, and the first beyond."""
    n = len(errors)
    if n <= MAX_POINTS:
        return list(range(n))
    edges = [n * k // MAX_POINTS for k in range(MAX_POINTS + 1)]
    found = {max(range(a, b), key=errors.__getitem__) for a, b in pairwise(edges)}
    return sorted(found | ({first} if first is not None else set()))


def _frame(title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" class="untrace-growth" role="img" '
        f'font-family="system-ui, sans-serif">\n<style>{STYLE}</style>\n'
        f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>\n'
        + _text(LEFT, 28, title, "title")
    )


def _error_axis(scale: _Scale) -> list[str]:
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'transform="rotate(-90 16 {middle})"'
    parts = [_text(16, middle, "relative error", "", "middle", turned)]
    step = max(1, math.ceil((scale.high - scale.low) / 8))
    marks = [(10.0**p, _power(p)) for p in range(scale.low, scale.high + 1, step)]
    marks.append((0.0, "equal"))
    marks += [(math.inf, "\N{INFINITY}")] * scale.is_endless
    for error, said in marks:
        y = scale.y(error)
        parts.append(_line("grid", LEFT, WIDTH - RIGHT, y))
        parts.append(_text(LEFT - 8, y + 4, said, "", "end"))
    return parts


def _value_axis(n: int, scale: _Scale) -> list[str]:
    said = "values, in the order in which they are computed"
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts = [_text(middle, HEIGHT - 10, said, "", "middle")]
    step = max(1, math.ceil(n / 10))
    parts += [
        _text(scale.x(i), HEIGHT - BOTTOM + 16, f"{i + 1:,}", "", "middle")
        for i in range(0, n, step)
    ]
    return parts


def _point(index: int, row: Row, scale: _Scale) -> str:
    error = row.distance.rel
    kind = "beyond" if row.is_beyond else "small" if error else "same"
    place = f", {row.origin.place}" if row.origin else ""
    turn = f", {row.turn}" if row.turn else ""
    tip = printable(f"{row.name}{place}{turn}: {row.words}, relative error {error:.3g}")
    at = f'cx="{scale.x(index):.1f}" cy="{scale.y(error):.1f}"'
    return f'<circle class="{kind}" {at} r="3.4"><title>{html.escape(tip)}</title></circle>'


def _marked(index: int, row: Row, scale: _Scale) -> list[str]:
    place = f", {row.origin.place}" if row.origin else ""
    turn = f", {row.turn}" if row.turn else ""
    said = f"first: {row.variable or row.name}{place}{turn}"
    if len(said) > MAX_LABEL:
        said = said[: MAX_LABEL - 1] + "\N{HORIZONTAL ELLIPSIS}"
    at = f'cx="{scale.x(index):.1f}" cy="{scale.y(row.distance.rel):.1f}"'
    return [f'<circle class="first" {at} r="7"/>', _text(LEFT, 48, said, "mark")]


def _power(exponent: int) -> str:
    if exponent in (0, 1):
        return str(10**exponent)
    raised = str(exponent).translate(_RAISED)
    return f"10{raised}"


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _line(kind: str, start: float, end: float, y: float) -> str:
    return f'<line class="{kind}" x1="{start}" x2="{end}" y1="{y:.1f}" y2="{y:.1f}"/>'


def _text(
    x: float, y: float, text: str, kind: str = "", anchor: str = "start", more: str = ""
) -> str:
    told = html.escape(printable(text))
    attributes = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    if kind:
        attributes += f' class="{kind}"'
    return f"<text {attributes} {more}>{told}</text>"
