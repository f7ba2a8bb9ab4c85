"""Verify a text against the captured program: the trusted kernel.

It takes the text, beside which its sidecar lies, and the captured computation; it knows
nothing of how the text was written.
"""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from untrace import jaxapi
from untrace.capture import Captured
from untrace.verification.compare import compare
from untrace.verification.equivalence import equivalent
from untrace.verification.interface import interface_difference
from untrace.verification.locate import source_line
from untrace.verification.numeric import outputs_agree
from untrace.verification.report import Report
from untrace.verification.retrace import execute, retrace
from untrace.verification.summary import differences


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text that claims to be a captured program.

    Attributes:
      text: The whole file.
      name: The main function.
      classes: Names of the classes in the text that stand for others, by what they
        stand for.
      path: Where the text says it is, and its sidecar lies; "" if it needs none.
      opened: Primitives of libraries that are written as what they compute, and whether
        with their backward passes.
    """

    text: str
    name: str
    classes: Mapping[Any, str]
    path: str = ""
    opened: Mapping[Any, bool] = field(default_factory=dict[Any, bool])


def check(
    candidate: Candidate,
    captured: Captured,
    notes: tuple[str, ...] = (),
    compares_values: bool = True,
    seeks_identical: bool = False,
) -> Report:
    """Execute, trace and compare; the report says which strength was reached.

    Args:
      candidate: The text.
      captured: What it claims to be.
      notes: What else the report is to say.
      compares_values: Whether programs that differ are run (see `with_values`).
      seeks_identical: Whether a weaker proof is of no use: programs that are not
        identical are called different, and their data flow is not compared.

    A text that does not run or trace is a failed verification, not an exception: the
    caller may print it differently, and the user still gets the text.
    """
    try:
        with jaxapi.paused_collection():
            path = candidate.path or None
            executed = execute(candidate.text, path, path)
            classes = dict(candidate.classes)
            actual, made = retrace(executed, candidate.name, captured, classes)
    except Exception as error:  # generated code may fail in any way; it is reported
        return Report("failed", error, notes=notes)
    filename = str(executed.__file__)
    try:
        other = interface_difference(captured, made)
        if other is not None:
            return Report("different", other, notes=notes, parting=other)
        opened = None if seeks_identical else candidate.opened
        report = _verdict(actual, filename, captured, notes, opened)
        report = replace(report, interface=made)
        return with_values(report, captured) if compares_values else report
    finally:
        linecache.cache.pop(filename, None)  # of use only while differences are located


def _verdict(
    actual: Any,
    filename: str,
    captured: Captured,
    notes: tuple[str, ...],
    opened: Mapping[Any, bool] | None,
) -> Report:
    """Compare the jaxpr that a text traced to with the captured one.

    The data flow is compared with some primitives `opened`, or not at all.
    """
    unproved: list[str] = []
    with jaxapi.paused_collection():
        difference = compare(captured.jaxpr, actual, unproved, are_refs_anew=True)
    if difference is None:
        # Stand-ins of functions are compared by name; by fingerprint they are themselves.
        traced = actual if unproved else None
        trusted = tuple(dict.fromkeys(unproved))
        return Report("identical", None, "", trusted, notes, traced=traced)
    parting = difference
    if opened is not None:
        parting = equivalent(
            captured.jaxpr, actual, unproved, opened, are_refs_anew=True
        )
    line = source_line(actual, parting or difference, filename)
    found = Report(
        "equivalent", difference, line, tuple(unproved), notes, traced=actual
    )
    if parting is None:
        return replace(found, differences=differences(captured.jaxpr, actual))
    return replace(found, strength="different", parting=parting)


def with_values(report: Report, captured: Captured) -> Report:
    """Run programs that differ, which takes long: do their values agree, at least?"""
    if report.strength != "different" or report.traced is None:
        return report
    agreement = outputs_agree(captured.jaxpr, report.traced, captured.values)
    if agreement is not None:
        agreed = f"On the given inputs the outputs are {agreement.text}."
        notes = (agreed, *report.notes)
        is_finite = agreement.are_finite
        return replace(report, strength="numeric", notes=notes, is_finite=is_finite)
    return replace(report, traced=None)
