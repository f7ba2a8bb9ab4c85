"""Level "api": the recorded calls, written and verified; else one step lower."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from untrace import jaxapi
from untrace.capture import Captured
from untrace.emission import emit
from untrace.errors import LiftingError
from untrace.ir import from_jaxpr
from untrace.lifting.lift import count_blocks
from untrace.lifting.recorded.program import lift_recorded
from untrace.lifting.recorded.readers import public_readers
from untrace.options import Options
from untrace.pipeline import Progress, untrace_captured
from untrace.recovery.record import Body
from untrace.recovery.recorder import Recorder
from untrace.result import Source
from untrace.verification.check import check
from untrace.verification.report import Report

_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def recording() -> tuple[
    list[Body], Callable[[Callable[[], Any], dict[str, Any]], Any]
]:
    """Return a list for the recorded run, and what `capture` calls to record it."""
    bodies: list[Body] = []

    def record(run: Callable[[], Any], arguments: dict[str, Any]) -> Any:
        recorder = Recorder(public_readers())
        body = Body(None, run.__code__, arguments)
        with recorder.recording(body):
            result = run()
        body.result = result
        body.error = recorder.error
        bodies[:] = [body]
        return result

    return bodies, record


def untrace_recorded(
    captured: Captured, options: Options, progress: Progress | None = None
) -> Source:
    """Turn a recorded computation into verified source at the level of calls.

    What cannot be written or proved so is written from its equations, as a jaxpr without
    a recording is, and a note says why.
    """
    note_progress = progress or (lambda stage: None)
    with jaxapi.deep_recursion():
        try:
            if captured.recording.error is not None:
                raise captured.recording.error
            source = _attempt(captured, options, note_progress)
        except LiftingError as error:
            reason = str(error)
        except Exception as error:  # the recorder stands on private names of JAX
            reason = f"{type(error).__name__}: {error}"
        else:
            if source.report.is_verified or not options.verify:
                return source
            reason = "; ".join(source.report.difference_lines())
    reason = _ADDRESS.sub("0x...", reason)  # another one in every process
    note = f"Written from its equations, not from the calls that were made: {reason}"
    lower = replace(captured, notes=(*captured.notes, note), recording=None)
    return untrace_captured(lower, options, progress)


def _attempt(captured: Captured, options: Options, progress: Progress) -> Source:
    """Write the program and verify it."""
    progress("writing")
    with jaxapi.paused_collection():
        block = from_jaxpr(captured.jaxpr)
        listing = lift_recorded(captured, options, block)
        module = emit(listing)
    notes = tuple(listing.lifter.notes)
    del listing  # verifying is where most memory is needed
    if options.verify:
        progress("verifying")
        report = check(module, captured, notes)
    else:
        report = Report("unverified", notes=notes)
    if options.reroll == "scan" and report.strength == "numeric":
        report = replace(report, strength="rerolled")
    report = replace(report, n_equations=count_blocks(block)[0])
    return Source(module, report, captured, block, options)
