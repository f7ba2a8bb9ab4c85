"""Level "api" without a recording: equations become the public calls that make them.

Each line is accepted by itself, then the whole is verified. Should the whole not be
equivalent all the same, the lines behind the difference are given up, a few times at most.
"""

from __future__ import annotations

from dataclasses import replace

from untrace.capture import Captured
from untrace.emission import emit
from untrace.errors import LiftingError
from untrace.ir import Block
from untrace.lifting.idioms.rewriting import Rewriter
from untrace.lifting.lift import Listing, lift
from untrace.lifting.lost import LostRules
from untrace.lifting.source_names import source_names
from untrace.options import Options
from untrace.result import Source
from untrace.verification.check import check
from untrace.verification.equivalence import equivalent
from untrace.verification.report import Report

MAX_ROUNDS = 6


def untrace_idioms(captured: Captured, options: Options, block: Block) -> Source | None:
    """Turn a computation into source at the level of calls.

    Returns:
      Source that is at least equivalent, or None if there is none.
    """
    excluded: set[str] = set()
    for _ in range(MAX_ROUNDS):
        rewriter = Rewriter(accepts, frozenset(excluded))
        try:
            source = _attempt(captured, options, rewriter.block(block), rewriter)
        except LiftingError:  # nothing was lost: level "lax" tells the user
            return None
        report = source.report
        if report.strength == "unverified" or report.is_verified:
            return source
        wrong = rewriter.lines_in(report.line) - excluded
        if not wrong:
            return None
        excluded |= wrong
    return None


def accepts(expected: object, actual: object) -> bool:
    """Tell whether two jaxprs are equal as data flow."""
    return equivalent(expected, actual) is None


def _attempt(
    captured: Captured, options: Options, lifted: Block, rewriter: Rewriter
) -> Source:
    listing = _listing(captured, options, lifted, rewriter)
    module = emit(listing)
    notes = tuple(listing.lifter.notes)
    report = Report("unverified", notes=notes)
    if options.verify:
        report = check(module, captured, notes)
    report = replace(report, n_equations=listing.lifter.n_equations)
    return Source(module, report, captured, lifted, options)


def _listing(
    captured: Captured, options: Options, lifted: Block, rewriter: Rewriter
) -> Listing:
    hints = source_names(lifted)

    def attempt(lost: LostRules | None) -> Listing:
        return lift(captured, options, None, lifted, 0, lost, hints, rewriter.block)

    try:
        return attempt(None)
    except LiftingError:
        lost = LostRules(captured.jaxpr)
        if not lost:
            raise
        return attempt(lost)
