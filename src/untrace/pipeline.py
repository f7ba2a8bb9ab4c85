"""The straight line: capture, lift, emit, verify, and the one loop over them.

When verification reports a difference, the equations to blame are printed one step
lower (idiom, then `jax.lax`, then `primitive.bind`) and the text is made again, a few
times at most.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

from untrace import jaxapi
from untrace.blame import lower, parting
from untrace.capture import Captured
from untrace.checking import check_module
from untrace.emission import emit
from untrace.errors import LiftingError, UnverifiedWarning, fault, reason
from untrace.idiomatic import untrace_idioms
from untrace.ir import Block, from_jaxpr
from untrace.lifting.blocks.lost import LostRules
from untrace.lifting.blocks.opened import OPENED, Opener
from untrace.lifting.lift import Listing, count_blocks, lift
from untrace.lifting.lines.function_lines import forget_trees
from untrace.lifting.printing import LOWEST_STEP
from untrace.lifting.steps import Steps
from untrace.optional import is_strict, left_out_notes, without_spoilers, writing
from untrace.options import Options
from untrace.progress import expect
from untrace.result import Source
from untrace.stages import is_late, stage
from untrace.verification.check import with_values
from untrace.verification.report import Report

MAX_ROUNDS = 16
"""The second half binds all equations of the primitives that were blamed."""
MAX_EQUATIONS = 200_000
"""Equations that are written in all rounds; a text depends on no machine's speed."""
RANK = ["failed", "different", "numeric", "equivalent", "identical", "unverified"]

Progress = Callable[[str], None]


def untrace_captured(
    captured: Captured, options: Options, progress: Progress | None = None
) -> Source:
    """Turn a captured computation into verified source.

    What cannot be proved is returned all the same, marked as unverified in its header,
    with a `UnverifiedWarning` that shows the first difference.

    Raises:
      LiftingError: If an equation cannot be written.
    """
    note_progress = progress or (lambda stage: None)
    with jaxapi.deep_recursion():
        with jaxapi.paused_collection():
            block = from_jaxpr(captured.jaxpr)
        try:
            source, is_good = writing(
                lambda: _written(captured, options, block, note_progress)
            )
        finally:
            forget_trees()
    if not (is_good or source.report.is_verified):
        warnings.warn(
            f"`{source.module.name}`: {source.report}", UnverifiedWarning, stacklevel=3
        )
    return source


def _written(
    captured: Captured, options: Options, block: Block, progress: Progress
) -> tuple[Source, bool]:
    """Write public calls, if they are asked for, or else one statement an equation.

    Returns:
      The source, and whether it is as good as its level promises.
    """
    steps = Steps()
    if options.level == "api" and captured.recording is None:
        made = untrace_idioms(captured, options, block, progress)
        if isinstance(made, Source):
            return made, True
        note = f'Written at level "lax", since the calls could not be proved: {made}'
        noted = replace(captured, notes=(*captured.notes, note))
        source = _best(noted, options, block, progress, steps)
        # What no rule could write at level "lax" stood in the way, perhaps.
        again = None
        if steps.kinds:
            again = untrace_idioms(captured, options, block, progress, steps)
        if isinstance(again, Source):
            return again, True
    else:
        source = _best(captured, options, block, progress, steps)
    return source, _is_good(source.report)


def _best(
    captured: Captured,
    options: Options,
    block: Block,
    progress: Progress,
    steps: Steps,
) -> Source:
    """Try until the equations are identical; return the best that was made.

    What has to be printed lower than usual is added to `steps`.
    """
    # Before a rule is blamed: did a step that only makes text better spoil it?
    try:
        first = without_spoilers(
            lambda: _attempt(captured, options, block, steps, progress),
            lambda source: _is_good(source.report),
        )
    except LiftingError:
        raise
    except Exception as error:  # a fault in a rule, which the tests are to find
        if is_strict():
            raise
        note = f"Written from primitives wherever that is possible: {fault(error)}"
        captured = replace(captured, notes=(*captured.notes, note))
        lowest = Steps(LOWEST_STEP, reason(error))
        first = _attempt(captured, options, block, lowest, progress)
    made = [first]
    # Anything less than identical would be no better then, and takes long to prove.
    is_proved = first.report.strength == "equivalent"
    n_rounds = min(MAX_ROUNDS, MAX_EQUATIONS // (first.report.n_equations + 1))
    try:
        for number in range(n_rounds):
            report = made[-1].report
            if (
                is_late()
                or _is_good(report)
                or not lower(report, steps, number >= n_rounds // 2)
            ):
                break
            last = made[-1]
            made.append(
                _attempt(captured, options, block, steps, progress, last, is_proved)
            )
        is_enough = is_late() and any(one.report.is_verified for one in made)
        if not (is_enough or _is_good(made[-1].report)):
            lowest = Steps(LOWEST_STEP, parting(made[-1].report))
            made.append(
                _attempt(captured, options, block, lowest, progress, None, is_proved)
            )
    except LiftingError:
        # Some equations cannot be bound; what was made before stands, with its verdict.
        pass
    best = max(made, key=lambda source: RANK.index(source.report.strength))
    return replace(best, report=with_values(best.report, captured))


def _is_good(report: Report) -> bool:
    """Whether the strength that level "lax" promises was reached."""
    if any(note.startswith(OPENED) for note in report.notes):
        return report.is_verified or report.strength == "unverified"
    return report.strength in ("identical", "unverified")


def _attempt(
    captured: Captured,
    options: Options,
    block: Block,
    steps: Steps,
    progress: Progress,
    last: Source | None = None,
    seeks_identical: bool = False,
) -> Source:
    """Write the program once and verify it, unless it is written as it was the last time."""
    progress("writing")
    with jaxapi.paused_collection():
        with stage("write"):
            listing = _lifted(captured, options, steps, block)
        with stage("lay out"):
            module = emit(listing)
    if last is not None and module.body == last.module.body:
        return last
    notes = (*listing.lifter.notes, *left_out_notes())
    # A listing that was not written from the equations has not counted them.
    n_equations = listing.lifter.n_equations or count_blocks(block)[0]
    del listing  # compiling the text is where most memory is needed
    if options.verify:
        progress("verifying")
        expect(n_equations)
        with stage("verify"):
            report = check_module(module, captured, notes, False, seeks_identical)
    else:
        report = Report("unverified", notes=notes)
    report = replace(report, n_equations=n_equations)
    return Source(module, report, captured, block, options)


def _lifted(
    captured: Captured, options: Options, steps: Steps, block: Block
) -> Listing:
    try:
        return lift(captured, options, steps, block)
    except LiftingError:
        # What cannot be written may stand in a rule, which is traced only when written.
        opener = Opener(unspellable=True)
        lifted = opener.block(block)
        lost = LostRules(captured.jaxpr) or None
    made = lift(captured, options, steps, lifted, lost, rewrite=opener.block)
    opener.note(made.lifter)
    return made
