"""Level "api": the recorded calls, written and verified; else one step lower."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from untrace import jaxapi
from untrace.capture import Captured
from untrace.emission import emit
from untrace.errors import LiftingError
from untrace.ir import from_jaxpr
from untrace.lifting.recorded.program import lift_recorded
from untrace.lifting.recorded.readers import public_readers
from untrace.options import Options
from untrace.pipeline import Progress, untrace_captured
from untrace.recovery.record import Body
from untrace.recovery.recorder import Recorder
from untrace.result import Source
from untrace.verification.check import check


def recording(
    transparent: Iterable[str] = (),
) -> tuple[list[Body], Callable[[Callable[[], Any], dict[str, Any]], Any]]:
    """Return a list for the recorded run, and what `capture` calls to record it."""
    bodies: list[Body] = []

    def record(run: Callable[[], Any], arguments: dict[str, Any]) -> Any:
        recorder = Recorder(public_readers(), transparent)
        body = Body(None, run.__code__, arguments)
        with recorder.recording(body):
            result = run()
        body.result = result
        bodies[:] = [body]
        return result

    return bodies, record


def untrace_recorded(
    captured: Captured, options: Options, progress: Progress | None = None
) -> Source:
    """Turn a recorded computation into verified source at the level of calls."""
    note_progress = progress or (lambda stage: None)
    with jaxapi.deep_recursion():
        block = from_jaxpr(captured.jaxpr)
        note_progress("writing")
        try:
            listing = lift_recorded(captured, options, block)
            module = emit(listing)
            note_progress("verifying")
            report = check(module, captured, tuple(listing.lifter.notes))
            reason = str(report.difference)
        except LiftingError as error:
            if "raise" in sys.argv:
                raise
            reason = str(error)
        else:
            report = replace(report, n_equations=listing.lifter.n_equations)
            source = Source(module, report, captured, block, options)
            if report.is_verified or "show" in sys.argv:
                return source
    note = f'Written at level "lax", since the calls could not be proved: {reason}'
    lower = replace(captured, notes=(*captured.notes, note))
    return untrace_captured(lower, replace(options, level="lax"), progress)
