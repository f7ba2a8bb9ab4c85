"""Tables in Markdown of what was found: `python -m tests.corpus.packages.table FILE...`."""

from __future__ import annotations

import argparse
import collections
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tests.corpus.packages.finding import Finding, from_json

COLUMNS: dict[str, Callable[[Finding], bool]] = {
    "cases": lambda f: True,
    "generated": lambda f: f.lines > 0,
    "identical": lambda f: f.outcome == "identical",
    "verified": lambda f: f.is_verified,
    "standalone": lambda f: f.lines > 0 and not f.imports,
    "values": lambda f: f.values == "equal",
    "load": lambda f: f.load == "works",
    "jit": lambda f: f.jit == "works",
    "vmap": lambda f: f.vmap in ("works", "original refuses"),
    "grad": lambda f: f.grad in ("works", "original refuses"),
}
CHECKS = ("saved", "values", "load", "jit", "vmap", "grad")
GOOD = ("", "works", "equal", "original refuses")


def read(paths: Iterable[Path]) -> list[Finding]:
    """Read records; of two findings of a case and level the later counts."""
    found: dict[tuple[str, str], Finding] = {}
    for path in paths:
        for line in path.read_text().splitlines():
            finding = from_json(line)
            found[finding.name, finding.level] = finding
    return list(found.values())


def packages_table(results: Sequence[Finding], level: str) -> str:
    """Lay out one row for each package, and the totals."""
    columns = dict(COLUMNS)
    if level == "api":
        for name in ("calls", "regions", "equations"):
            columns[name] = lambda f, name=name: f.origin == name
    rows: dict[str, list[Finding]] = collections.defaultdict(list)
    for finding in results:
        if finding.level == level and finding.counts:
            rows[finding.package].append(finding)
    lines = [f"| package | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    total = [finding for row in rows.values() for finding in row]
    for package, row in [*sorted(rows.items()), ("all", total)]:
        cells = [f"{sum(map(test, row)):,}" for test in columns.values()]
        lines.append(f"| {package} | {' | '.join(cells)} |")
    return "\n".join(lines)


def failures(finding: Finding) -> list[str]:
    """Name the classes of what went wrong in one finding."""
    if not finding.counts:
        return []
    classes: list[str] = []
    if not finding.is_verified:
        place = f" ({finding.frame})" if finding.frame else ""
        classes.append(f"{finding.outcome}: {normal(finding.detail)}{place}")
    classes += [f"left out: {name}" for name in finding.left_out]
    for check in CHECKS:
        verdict = getattr(finding, check)
        if verdict not in GOOD:
            classes.append(f"{check}: {normal(verdict)}")
    return classes


def normal(message: str) -> str:
    """Leave numbers and names out of a message, so that like ones are one class."""
    message = " ".join(message.split())
    message = re.sub(r"`[^`]*`|'[^']*'|\"[^\"]*\"", "…", message)
    message = re.sub(r"0x[0-9a-f]+|\d[\d.,]*(e[+-]?\d+)?", "#", message)
    return re.sub(r"[\w.]+\(\) (takes|got|missing)", r"…() \1", message)[:160]


def report(results: Sequence[Finding]) -> str:
    """Lay out the tables of both levels, and the failures by class."""
    parts: list[str] = []
    for level in ("lax", "api"):
        if any(finding.level == level for finding in results):
            parts.append(f"Level `{level}`:\n\n{packages_table(results, level)}")
    aside = collections.Counter(f.outcome for f in results if not f.counts)
    parts.append("Not counted: " + (str(dict(aside)) if aside else "none") + ".")
    parts += [
        f"- {f.outcome} {f.name}: {normal(f.detail)}"
        for f in results
        if f.outcome == "case fails"
    ]
    classes: dict[str, list[str]] = collections.defaultdict(list)
    for finding in results:
        for name in failures(finding):
            classes[name].append(f"{finding.name} ({finding.level})")
    ordered = sorted(classes.items(), key=lambda item: -len(item[1]))
    parts += [f"- {len(n)} × {c}\n  {', '.join(n[:4])}" for c, n in ordered]
    return "\n\n".join(parts)


def main() -> None:
    """Print the tables of records."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("records", nargs="+", type=Path)
    print(report(read(parser.parse_args().records)))


if __name__ == "__main__":
    main()
