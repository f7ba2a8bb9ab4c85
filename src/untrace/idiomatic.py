"""Level "api" without a recording: equations become the public calls that make them.

Each line is accepted by itself, then the whole is verified. Should the whole not be
equivalent all the same, the lines behind the difference are given up, a few times at most.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from untrace.capture import Captured
from untrace.checking import check_module
from untrace.emission import emit
from untrace.errors import LiftingError, fault, reason
from untrace.ir import Block
from untrace.lifting.blocks.inlining import without_jit
from untrace.lifting.blocks.lost import LostRules
from untrace.lifting.blocks.opened import Opener
from untrace.lifting.idioms.rewriting import Rewriter
from untrace.lifting.lift import Listing, lift
from untrace.lifting.names.source_names import source_names
from untrace.lifting.steps import Steps
from untrace.optional import is_strict, left_out_notes, without_spoilers
from untrace.options import Options
from untrace.progress import expect
from untrace.result import Source
from untrace.stages import is_late
from untrace.verification.equivalence import equivalent
from untrace.verification.report import Report

MAX_ROUNDS = 6


def untrace_idioms(
    captured: Captured,
    options: Options,
    block: Block,
    progress: Callable[[str], None],
    steps: Steps | None = None,
) -> Source | str:
    """Turn a computation into source at the level of calls.

    Args:
      options: What the user asked for.
      block: The computation, as it was read.
      progress: Called with a word at the start of every stage.
      steps: Equations to print lower than usual, where they are left.

    Returns:
      Source that is at least equivalent, or why there is none.
    """
    try:
        source = without_spoilers(
            lambda: _best(captured, options, block, progress, steps), _is_good
        )
    except LiftingError as error:  # nothing was lost: level "lax" tells the user
        return reason(error)
    except Exception as error:  # nor by a fault, which the tests are to find
        if is_strict():
            raise
        return fault(error)
    if _is_good(source):
        return source
    return source.report.why


def _is_good(source: Source) -> bool:
    return source.report.is_verified or source.report.strength == "unverified"


def _best(
    captured: Captured,
    options: Options,
    block: Block,
    progress: Callable[[str], None],
    steps: Steps | None,
) -> Source:
    """Write a computation until it is proved, or no line is left to blame."""
    excluded: set[str] = set()
    with_rules, n_rounds = True, 0
    opens_jit = "jit" in options.expand
    while True:
        rewriter = Rewriter(accepts, frozenset(excluded), with_rules, opens_jit)
        source = _attempt(captured, options, block, rewriter, progress, steps)
        n_rounds += 1
        if _is_good(source) or n_rounds == MAX_ROUNDS or is_late():
            return source
        if with_rules and "custom_" in str(source.report.difference):
            with_rules = False  # rules that make new rules are known by their equations
            continue
        wrong = rewriter.lines_in(source.report.line) - excluded
        if opens_jit:
            opens_jit = False  # it was not the boundary alone
            continue
        if not wrong:
            return source
        excluded |= wrong


def accepts(expected: object, actual: object) -> bool:
    """Whether two jaxprs are equal as data flow."""
    return equivalent(expected, actual) is None


def _attempt(
    captured: Captured,
    options: Options,
    block: Block,
    rewriter: Rewriter,
    progress: Callable[[str], None],
    steps: Steps | None,
) -> Source:
    progress("writing")
    opener = Opener(options.keep_types)

    def rewrite(block: Block) -> Block:
        return rewriter.block(opener.block(block))

    lifted = rewrite(block)
    if rewriter.opens_jit:
        lifted = without_jit(lifted)
    hints = source_names(lifted)

    rules = rewrite if rewriter.with_rules else opener.block

    def listing(lost: LostRules | None) -> Listing:
        return lift(captured, options, steps, lifted, lost, hints, rules)

    made = _with_lost_rules(captured, listing)
    opener.note(made.lifter)
    module = emit(made)
    notes = (*made.lifter.notes, *rewriter.notes, *left_out_notes())
    report = Report("unverified", notes=notes)
    if options.verify:
        progress("verifying")
        expect(made.lifter.n_equations)
        report = check_module(module, captured, notes, compares_values=False)
    report = replace(report, n_equations=made.lifter.n_equations)
    return Source(module, report, captured, lifted, options)


def _with_lost_rules(
    captured: Captured, listing: Callable[[LostRules | None], Listing]
) -> Listing:
    try:
        return listing(None)
    except LiftingError:
        lost = LostRules(captured.jaxpr)
        if not lost:
            raise
        return listing(lost)
