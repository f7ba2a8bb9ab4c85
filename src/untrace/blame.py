"""Which equations are to blame for a text that could not be proved."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from untrace.lifting.blocks.opened import OPENED
from untrace.lifting.steps import Steps, callee
from untrace.verification.difference import Difference, shorten
from untrace.verification.report import Report

Written = Mapping[str, Sequence[Any]]


def parting(report: Report) -> str:
    """What was seen, in one line."""
    found = report.difference
    if isinstance(found, Difference):
        return f"`{found.expected}` became `{found.actual}` ({found.reason})"
    return shorten(f"{type(found).__name__}: {found}")


def lower(report: Report, steps: Steps, in_all: bool) -> bool:
    """Print what is to blame one step lower, if it can be; whether it could.

    Args:
      report: The verdict.
      steps: Where that is noted.
      in_all: Whether to bind all equations of all primitives blamed so far instead.
    """
    groups = list(blamed(report, steps.written))
    return steps.lower(groups, parting(report), in_all)


def blamed(report: Report, written: Written) -> Iterator[Sequence[Any]]:
    """Yield equations that may be to blame, the likeliest first.

    The first that differs, or else what made the equation in its place, or what is
    around it. Where the text raises, those that are written as the calls that raised.

    Args:
      report: The verdict.
      written: Equations by the function that their text calls.
    """
    found = report.difference
    is_opened = any(note.startswith(OPENED) for note in report.notes)
    if is_opened and isinstance(report.parting, Difference) and report.parting.blamed:
        found = report.parting  # what is opened differs in every equation
    if isinstance(found, Difference):
        *outer, inner = [[eqn] if eqn else [] for eqn in found.blamed] or [[]]
        yield from (inner, _written_in(report.line.rpartition(" = ")[2], written))
        yield from reversed(outer)
    elif isinstance(found, Exception):
        for frame in reversed(traceback.extract_tb(found.__traceback__)):
            if frame.filename.startswith("<untrace") and frame.lineno:
                line = linecache.getline(frame.filename, frame.lineno)
                yield _written_in(line[frame.colno or 0 :], written)


def _written_in(text: str, written: Written) -> Sequence[Any]:
    name = callee(text)
    return written.get(name, ()) if name else ()
