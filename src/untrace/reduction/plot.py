"""Draw how a program became smaller: equations over runs, as a standalone SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from untrace.reduction.search import Step

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 24, 56, 56
COLORS = ("#3b6ea5", "#c8553d", "#588157", "#8d6a9f", "#c99a2e", "#4a9c9c", "#7a7a7a")


def plot_svg(history: Sequence[Step], start: int, n_runs: int, title: str) -> str:
    """Draw the accepted steps, coloured by pass; the size is on a logarithmic scale.

    Args:
      history: The accepted steps.
      start: Equations of the original.
      n_runs: Runs of the whole reduction.
      title: Written above.
    """
    top = math.log10(max(start, 2))
    end = max(n_runs, 1)

    def x(runs: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * runs / end

    def y(size: int) -> float:
        share = math.log10(max(size, 1)) / top
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    parts = [_frame(title), *_size_axis(y, top), *_run_axis(x, end)]
    names = list(dict.fromkeys(step.pass_name for step in history))
    colors = {name: COLORS[i % len(COLORS)] for i, name in enumerate(names)}
    at, size = 0, start
    points = [f"M{x(0):.1f},{y(start):.1f}"]
    for step in history:
        points.append(f"H{x(step.runs):.1f}V{y(step.size.equations):.1f}")
        at, size = step.runs, step.size.equations
    points.append(f"H{x(end):.1f}")
    parts.append(
        f'<path d="{"".join(points)}" fill="none" stroke="#444" stroke-width="1.6"/>'
    )
    for step in history:
        tip = html.escape(f"run {step.runs}: {step.pass_name}, {step.size.equations}")
        parts.append(
            f'<circle cx="{x(step.runs):.1f}" cy="{y(step.size.equations):.1f}" r="3.5" '
            f'fill="{colors[step.pass_name]}"><title>{tip}</title></circle>'
        )
    last = f'x="{x(max(at, 1)) - 6:.1f}" y="{y(size) - 10:.1f}"'
    parts.append(f'<text {last} text-anchor="end" class="n">{size:,}</text>')
    parts += _legend(colors)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _frame(title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'role="img" font-family="system-ui, sans-serif">\n'
        "<style>text{font-size:12px;fill:#555}.t{font-size:15px;fill:#222}"
        ".n{font-weight:600;fill:#222}line{stroke:#ddd}</style>\n"
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>\n'
        f'<text x="{LEFT}" y="24" class="t">{html.escape(title)}</text>'
    )


def _size_axis(y, top: float) -> list[str]:  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
    parts = [
        f'<text x="16" y="{(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle" '
        f'transform="rotate(-90 16 {(TOP + HEIGHT - BOTTOM) / 2})">equations</text>'
    ]
    for power in range(math.floor(top) + 1):
        at = y(10**power)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        )
        parts.append(
            f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{10**power:,}</text>'
        )
    return parts


def _run_axis(x, end: int) -> list[str]:  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
    base = HEIGHT - BOTTOM
    step = 10 ** max(0, math.floor(math.log10(end)))
    step = step // 2 if end / step < 3 and step > 1 else step
    parts = [
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" '
        'text-anchor="middle">runs of the predicate</text>'
    ]
    for runs in range(0, end + 1, max(step, 1)):
        parts.append(
            f'<text x="{x(runs):.1f}" y="{base + 18}" text-anchor="middle">{runs:,}</text>'
        )
    return parts


def _legend(colors: dict[str, str]) -> list[str]:
    parts: list[str] = []
    at = LEFT
    for name, color in colors.items():
        parts.append(f'<circle cx="{at + 4}" cy="42" r="4" fill="{color}"/>')
        parts.append(f'<text x="{at + 12}" y="46">{html.escape(name)}</text>')
        at += 24 + 6 * len(name)
        if at > WIDTH - 120:
            break
    return parts
