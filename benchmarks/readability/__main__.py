"""How readable the recovered source of a corpus of programs is.

    python -m benchmarks.readability                        all programs
    python -m benchmarks.readability gpt flax_adam          some of them
    python -m benchmarks.readability --write build/read     keep what comes out
    python -m benchmarks.readability gpt --missing          list what was lost
    python -m benchmarks.readability --jaxpr                from their jaxprs alone

Each program is recovered at a level, and the result measured: tokens against a
hand-written version in plain JAX (for a program in plain JAX without one, against
itself) and against the one-statement-per-equation print; statements at the level of
what somebody wrote; names that came back; lengths. The targets are below the table.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import jax
from rich.console import Console
from rich.table import Table

from benchmarks.readability import corpus, scoring
from benchmarks.readability.scoring import Score, Share

COLUMNS = (
    "program", "s", "verdict", "lines", "tokens", "/hand", "/lax", "api",
    "args", "params", "locals", "functions", "longest", "repeats",
)  # fmt: skip


def main() -> int:
    """Print the table and the targets; return 1 if one is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.readability", description=__doc__.split("\n")[0]
    )
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--level", choices=("api", "lax"), default="api")
    parser.add_argument("--write", type=Path, metavar="DIR", help="save the files")
    parser.add_argument(
        "--jaxpr", action="store_true", help="recover them from their jaxprs alone"
    )
    parser.add_argument("--values", action="store_true", help="compare outputs, too")
    parser.add_argument("--missing", action="store_true", help="list what was lost")
    parser.add_argument("--width", type=int, default=150, help="of the table")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # the verdict is in the table
    known = corpus.names()
    if unknown := set(options.names) - set(known):
        parser.error(f"no program is called {', '.join(sorted(unknown))}")
    console = Console(width=options.width)
    scores: list[Score] = []
    absent: list[str] = []
    for name in options.names or known:
        try:
            result, src = scoring.score(
                name, options.level, options.values, options.jaxpr
            )
        except corpus.MissingError as error:
            absent.append(f"{name}: {error}")
            continue
        scores.append(result)
        print(".", end="", file=sys.stderr, flush=True)
        if options.write and src is not None:
            options.write.mkdir(parents=True, exist_ok=True)
            src.save(options.write / f"{name}.py")
    print(file=sys.stderr)
    console.print(table(scores, options.level))
    if options.missing:
        console.print("\n".join(lost(scores)), markup=False)
    for line in absent:
        console.print(f"skipped {line}", markup=False)
    is_met = True
    wanted = jaxpr_targets if options.jaxpr else targets
    for target, figure, passes in wanted(scores, options.values):
        is_met &= passes
        sign = "pass" if passes else "FAIL"
        console.print(f"{sign}  {target}: {figure}", markup=False, highlight=False)
    return 0 if is_met else 1


def table(scores: list[Score], level: str) -> Table:
    """Lay out one line a program, with medians and worst values below."""
    made = Table(title=f'level="{level}", jax {jax.__version__}')
    for column in COLUMNS:
        text = column in ("program", "verdict")
        made.add_column(column, justify="left" if text else "right")
    for one in scores:
        if one.verdict == "error":
            made.add_row(one.name, "", f"error: {one.detail[:60]}")
            continue
        made.add_row(*_cells(one))
    measured = [one for one in scores if one.verdict != "error"]
    if measured:
        made.add_section()
        made.add_row(*_summary("median", measured, statistics.median))
        made.add_row(*_summary("worst", measured, max))
    return made


def _cells(one: Score) -> list[str]:
    mark = "" if one.yardstick == "hand" else "°"  # ° against the program itself
    return [
        one.name,
        f"{one.time_s:.1f}",
        one.verdict,
        str(one.n_lines),
        str(one.n_tokens),
        f"{one.to_yardstick:.2f}{mark}" if one.to_yardstick else "",
        f"{one.to_lax:.2f}" if one.to_lax else "",
        f"{one.n_api_statements}/{one.n_statements}",
        str(one.arguments),
        str(one.parameters),
        str(one.local_names),
        str(one.functions),
        f"{one.longest} ({one.longest_of_user})",
        str(one.n_repeats),
    ]


def _summary(
    label: str, scores: list[Score], combine: Callable[[list[float]], float]
) -> list[str]:
    """Combine each column; shares by what is missing of them."""

    def share(part: Callable[[Score], tuple[int, int]]) -> str:
        missing = [1 - _ratio(*part(one)) for one in scores]
        return f"{100 * (1 - combine(missing)):.0f} %"

    def number(values: Iterable[float | None], digits: int = 0) -> str:
        present = [value for value in values if value is not None]
        return f"{combine(present):.{digits}f}" if present else ""

    return [
        label,
        number((one.time_s for one in scores), 1),
        "",
        number(one.n_lines for one in scores),
        number(one.n_tokens for one in scores),
        number((one.to_yardstick for one in scores), 2),
        number((one.to_lax for one in scores), 2),
        share(lambda one: (one.n_api_statements, one.n_statements)),
        share(lambda one: _counts(one.arguments)),
        share(lambda one: _counts(one.parameters)),
        share(lambda one: _counts(one.local_names)),
        share(lambda one: _counts(one.functions)),
        number(one.longest for one in scores),
        number(one.n_repeats for one in scores),
    ]


def _counts(share: Share) -> tuple[int, int]:
    return share.n_found, share.n_asked


def _ratio(n_found: int, n_asked: int) -> float:
    return n_found / n_asked if n_asked else 1.0


def lost(scores: list[Score]) -> Iterator[str]:
    """List, program by program, what kept it from the best score."""
    for one in scores:
        lines = {
            "detail": one.detail,
            "arguments": ", ".join(one.arguments.missing),
            "parameters": ", ".join(one.parameters.missing),
            "locals": ", ".join(one.local_names.missing),
            "functions": ", ".join(one.functions.missing),
            "letters": ", ".join(one.letters),
            "imports": ", ".join(one.foreign_imports),
            "values": one.differs,
            "below the api": "\n    ".join(one.low_statements),
        }
        yield one.name
        yield from (f"  {key}: {text}" for key, text in lines.items() if text)


def targets(scores: list[Score], with_values: bool) -> Iterator[tuple[str, str, bool]]:
    """List each target, what was reached, and whether that is enough."""
    verified = [one for one in scores if one.verdict in ("identical", "equivalent")]
    yield (
        "all verified at least equivalent",
        f"{len(verified)} of {len(scores)}",
        len(verified) == len(scores),
    )
    scores = [one for one in scores if one.verdict != "error"]
    standalone = [one for one in scores if not one.foreign_imports]
    yield (
        "all files standalone",
        f"{len(standalone)} of {len(scores)}",
        len(standalone) == len(scores),
    )
    if with_values:
        equal = [one for one in scores if not one.differs]
        yield (
            "all outputs equal",
            f"{len(equal)} of {len(scores)}",
            len(equal) == len(scores),
        )
    yield at_least(
        "statements at the level of the API",
        0.98,
        ((one.n_api_statements, one.n_statements) for one in scores),
    )
    for label, chosen in (
        ("hand-written version", [s for s in scores if s.yardstick == "hand"]),
        ("plain original", [s for s in scores if s.yardstick == "own"]),
    ):
        if not (ratios := [s.to_yardstick or 0.0 for s in chosen]):
            continue
        yield at_most(
            f"tokens over the {label}, median", 1.25, statistics.median(ratios)
        )
        yield at_most(f"tokens over the {label}, worst", 1.6, max(ratios))
    if ratios := [one.to_lax or 0.0 for one in scores if one.is_framework]:
        yield at_most("tokens of framework programs over lax, worst", 0.5, max(ratios))
    both = (
        pair for s in scores for pair in (_counts(s.arguments), _counts(s.parameters))
    )
    yield at_least("names of arguments and parameters", 0.95, both)
    yield at_least(
        "names of locals", 0.85, (_counts(one.local_names) for one in scores)
    )
    yield at_least(
        "names of functions", 0.90, (_counts(one.functions) for one in scores)
    )
    letters = sum(len(one.letters) for one in scores)
    yield ("letters nobody chose", str(letters), letters == 0)
    long = [s.name for s in scores if s.longest > max(60, s.longest_of_user)]
    yield ("no function over 60 lines", ", ".join(long) or "none", not long)
    repeated = [one.name for one in scores if one.n_repeats]
    yield ("no block three times", ", ".join(repeated) or "none", not repeated)


def jaxpr_targets(
    scores: list[Score], with_values: bool
) -> Iterator[tuple[str, str, bool]]:
    """List the targets for programs of which there is nothing but the jaxpr."""
    verified = [one for one in scores if one.verdict in ("identical", "equivalent")]
    yield (
        "all verified at least equivalent",
        f"{len(verified)} of {len(scores)}",
        len(verified) == len(scores),
    )
    scores = [one for one in scores if one.verdict != "error"]
    if with_values:
        equal = [one for one in scores if not one.differs]
        yield (
            "all outputs equal",
            f"{len(equal)} of {len(scores)}",
            len(equal) == len(scores),
        )
    yield at_least(
        "statements at the level of the API",
        0.80,
        ((one.n_api_statements, one.n_statements) for one in scores),
    )
    yield at_least(
        "names of locals", 0.60, (_counts(one.local_names) for one in scores)
    )


def at_least(
    label: str, limit: float, counts: Iterable[tuple[int, int]]
) -> tuple[str, str, bool]:
    """Compare a share over all programs with its least value."""
    pairs = list(counts)
    found, asked = sum(p[0] for p in pairs), sum(p[1] for p in pairs)
    reached = _ratio(found, asked)
    text = f"{100 * reached:.1f} % ({found}/{asked})"
    return f"{label} ≥ {100 * limit:.0f} %", text, reached >= limit


def at_most(label: str, limit: float, reached: float) -> tuple[str, str, bool]:
    """Compare a ratio with its largest value."""
    return f"{label} ≤ {limit}", f"{reached:.2f}", reached <= limit


if __name__ == "__main__":
    sys.exit(main())
