"""Level "api": the recorded calls, written and verified; else one step lower."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence, Set
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from untrace import jaxapi
from untrace.capture import Captured
from untrace.capture.capture import Recorded
from untrace.capture.stand_ins import without_types
from untrace.capture.user_code import MAX_FRAMES
from untrace.checking import check_module
from untrace.emission import emit
from untrace.errors import LiftingError, fault
from untrace.idiomatic import accepts
from untrace.ir import Block, from_jaxpr
from untrace.lifting.blocks.opened import Opener
from untrace.lifting.idioms.rewriting import Rewriter
from untrace.lifting.lift import count_blocks
from untrace.lifting.lines.function_lines import forget_trees
from untrace.lifting.recorded.calls.lost_derivatives import pulled_back_in
from untrace.lifting.recorded.calls.opening import is_opened_whole, occurring
from untrace.lifting.recorded.functions.merging_again import merge_again, pointed_to
from untrace.lifting.recorded.listing import lift_recorded
from untrace.lifting.recorded.plan import Plan
from untrace.lifting.recorded.program import Program
from untrace.lifting.recorded.readers import public_readers
from untrace.optional import left_out_notes, without_spoilers, writing
from untrace.options import Options
from untrace.pipeline import Progress, untrace_captured
from untrace.progress import expect
from untrace.recovery.record import Body, Call
from untrace.recovery.recorder import Recorder
from untrace.recovery.snapshots import Snapshots
from untrace.result import Source
from untrace.stages import TimeIsOver, is_late, stage, stoppable
from untrace.verification.locate import statement_at
from untrace.verification.report import Report

MAX_ROUNDS = 6
MAX_INSIDE = 2  # calls inside a function that are lowered because of one failure
FROM_EQUATIONS = "Written from its equations, not from the calls that were made"
"""How the note that says so begins; what follows is why."""


def recording(
    expand: frozenset[str] = frozenset(),
) -> tuple[list[Body], Recorded]:
    """Return a list for the recorded run, and what `capture` calls to record it.

    The calls of the transformations in `expand` are recorded wherever they are made.
    """
    bodies: list[Body] = []

    def record(
        put_together: Callable[[], dict[str, Any]],
        run: Callable[[], Any],
        finish: Callable[[Any], Any],
    ) -> Any:
        body = Body(None, run.__code__, {})
        with ExitStack() as stack:
            recorder = None
            try:
                recorder = Recorder(public_readers, expand)
                watched = recorder.recording(body)
                watched.__enter__()  # in this frame, under which calls are recorded
                stack.push(watched)
            except Exception as error:  # it stands on private names of JAX
                body.error = error
            with recorder.preparing(body) if recorder else nullcontext():
                body.parameters = put_together()
                try:
                    snapshots = recorder.snapshots if recorder else Snapshots()
                    body.parameters = snapshots.take(body.parameters)
                except Exception as error:  # it runs code of classes
                    body.error = error
            result = run()
        result = body.result = finish(result)
        body.error = body.error or (recorder and recorder.error)
        bodies[:] = [body]
        return result

    return bodies, record


def untrace_recorded(
    captured: Captured, options: Options, progress: Progress | None = None
) -> Source:
    """Turn a recorded computation into verified source at the level of calls.

    A call that cannot be written or proved so is written from its equations, and a note
    says why; if that is not possible either, the whole program is, as a jaxpr without a
    recording would be.
    """
    try:
        return writing(lambda: _written(captured, options, progress))
    finally:
        forget_trees()


def _written(captured: Captured, options: Options, progress: Progress | None) -> Source:
    note_progress = progress or (lambda stage: None)
    known = occurring(captured.recording) if options.expand else None
    for name in sorted(options.expand - known) if known is not None else ():
        note = f'expand="{name}" changes nothing: the program makes no such call.'
        if known:
            note += f" It makes calls of: {', '.join(sorted(known))}."
        captured = replace(captured, notes=(*captured.notes, note))
    if is_opened_whole(captured.recording, options.expand):
        return untrace_captured(_without_calls(captured, options), options, progress)
    # As deep as the original: text that calls itself without end is to raise, not crash.
    with jaxapi.deep_recursion(MAX_FRAMES):
        try:
            if captured.recording.error is not None:
                raise captured.recording.error
            with stoppable():
                source = without_spoilers(
                    lambda: _best(captured, options, note_progress),
                    lambda source: source.report.is_verified or not options.verify,
                )
        except TimeIsOver:
            why = "the time was over before they were written"
        except Exception as error:  # the recorder stands on private names of JAX
            why = fault(error)
        else:
            if source.report.is_verified or not options.verify:
                return source
            late = " (the time to write them better was over)" if is_late() else ""
            why = f"{source.report.why}{late}"
    note = f"{FROM_EQUATIONS}: {why}"
    lower = replace(captured, notes=(*captured.notes, note))
    return untrace_captured(_without_calls(lower, options), options, progress)


def _without_calls(captured: Captured, options: Options) -> Captured:
    """Leave the equations, whose file imports no class that is not to be kept."""
    captured = replace(captured, recording=None)
    return captured if options.keep_types else without_types(captured)


Attempt = Callable[[Options], tuple[Source, Program, Rewriter]]
"""Writes the program, with what is known by then, and verifies it."""


def _best(captured: Captured, options: Options, progress: Progress) -> Source:
    """Write the program until it is proved; then with scans in place of repeated calls.

    Nothing but values tells about those, so all else of the text has to be proved before.
    """
    with jaxapi.paused_collection(), jaxapi.deep_recursion():
        block = from_jaxpr(captured.jaxpr)
    plan = Plan(captured.recording, expand=options.expand)
    plan.pulled_back |= pulled_back_in(captured.recording)
    batches = plan.apart.batches
    batches |= captured.recording.batches
    opener = Opener(options.keep_types, pulled_back=plan.pulled_back, batches=batches)

    def attempt(given: Options) -> tuple[Source, Program, Rewriter]:
        rewriter = Rewriter(accepts, frozenset(plan.excluded))
        made = _attempt(captured, given, block, plan, rewriter, opener, progress)
        return *made, rewriter

    if options.reroll != "scan" or not options.verify:
        return _proved(options, plan, attempt)
    proved = _proved(replace(options, reroll="auto"), plan, attempt)
    if not proved.report.is_verified:
        return proved
    try:
        rolled, _, _ = attempt(options)
    except TimeIsOver:
        return replace(proved, options=options)
    report = rolled.report
    if report.strength == "numeric" and rolled.module.body != proved.module.body:
        return replace(rolled, report=replace(report, strength="rerolled"))
    return rolled if report.is_verified else replace(proved, options=options)


def _proved(options: Options, plan: Plan, attempt_with: Attempt) -> Source:
    """Write the program until it is proved; what differs is written one step lower."""
    attempt = partial(attempt_with, options)
    unmerged: set[str] = set()
    suspects: set[str] = set()
    without: dict[Call, str] | None = None  # what was lowered before a trial
    while True:
        source, program, rewriter = attempt()
        report = source.report
        if report.is_verified and unmerged:
            return _merged_again(source, plan, unmerged, suspects, attempt)
        if report.is_verified or not options.verify or is_late():
            program.release()
            return source
        if plan.n_rounds >= MAX_ROUNDS:
            if plan.lower_around(report.blamed, report.why):
                continue
            program.release()
            return source
        plan.n_rounds += 1
        lines = [report.line] if report.line else _lines_of(report.difference)
        line = lines[0] if lines else ""
        if without is not None:
            plan.lowered, without = without, None
            plan.n_rounds -= 1
        elif not (lines or plan.n_widened) and plan.lowered:
            # No line differs: perhaps the equations of a call do, under a transformation.
            without = dict(plan.lowered)
            if plan.widen(report.why):
                continue
            without = None
        if plan.unread:
            plan.unread.clear()
            plan.prunes = False
            continue
        if plan.merging:
            unmerged |= plan.merging
            suspects |= pointed_to(unmerged, line, source.module.body)
            plan.mergeable = frozenset()
            continue
        if plan.bake():
            continue
        if program.close_jit():
            continue
        wrong = rewriter.lines_in(line) - plan.excluded
        plan.excluded |= wrong
        why = report.why
        is_lowered = wrong or _lower(lines, why, plan, program)
        if not (is_lowered or plan.lower_around(report.blamed, why)):
            return source


def _lower(lines: Sequence[str], why: str, plan: Plan, program: Program) -> bool:
    """Write a call one step lower: that of a line, or else one around the last of them.

    Args:
      lines: Where the program differs or raises, and the lines that called these.
      why: How it differs.
      plan: What is known about the program.
      program: As it was written.

    What fails in one way again and again inside a function may come of what it is given:
    then its call is written so.

    Returns:
      Whether there is one.
    """
    failure = why, tuple(lines[1:])
    plan.failures[failure] += 1
    tried = lines[:1] if plan.lowered else lines
    if plan.failures[failure] > MAX_INSIDE and lines[1:]:
        tried = lines[1:]
    return any(program.lower_line(line, why) for line in tried) or plan.widen(why)


def _merged_again(
    proved: Source,
    plan: Plan,
    names: Set[str],
    suspects: Set[str],
    attempt: Callable[[], tuple[Source, Program, Rewriter]],
) -> Source:
    """Merge the functions that are not to blame; return the last text that is proved."""
    best = proved

    def is_proved(mergeable: Set[str]) -> bool:
        nonlocal best
        if is_late():
            return False
        plan.mergeable = mergeable
        try:
            source, program, _ = attempt()
        except LiftingError:  # what was written without merging stands
            return False
        program.release()
        best = source if source.report.is_verified else best
        return source.report.is_verified

    with suppress(TimeIsOver):
        merge_again(names, suspects, is_proved)
    return best


def _lines_of(error: object) -> list[str]:
    """Return what of the generated text an error was raised in, inner first."""
    if not isinstance(error, Exception):
        return []
    frames = traceback.extract_tb(error.__traceback__)
    lines = [
        statement_at(frame.filename, frame.lineno)
        for frame in frames
        if frame.filename.startswith("<untrace") and frame.lineno
    ]
    return [line for line in reversed(lines) if line]


def _attempt(
    captured: Captured,
    options: Options,
    block: Block,
    plan: Plan,
    rewriter: Rewriter,
    opener: Opener,
    progress: Progress,
) -> tuple[Source, Program]:
    """Write the program and verify it."""
    progress("writing")
    with jaxapi.paused_collection(), jaxapi.deep_recursion():

        def rewrite(block: Block) -> Block:
            return rewriter.block(opener.block(block))

        with stage("write"):
            listing, program = lift_recorded(captured, options, block, plan, rewrite)
        opener.note(listing.lifter)
        with stage("lay out"):
            module = emit(listing)
    notes = (*listing.lifter.notes, *rewriter.notes, *left_out_notes())
    del listing  # verifying is where most memory is needed
    if options.verify:
        progress("verifying")
        expect(count_blocks(block)[0])
        # Only scans in place of repeated calls are proved by nothing but values.
        by_values = options.reroll == "scan"
        with stoppable(False), stage("verify"):
            report = check_module(module, captured, notes, compares_values=by_values)
    else:
        report = Report("unverified", notes=notes)
    report = replace(report, n_equations=count_blocks(block)[0])
    return Source(module, report, captured, block, options), program
