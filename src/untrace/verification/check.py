"""Verify a generated module against the captured program."""

from __future__ import annotations

import linecache
import tempfile
from pathlib import Path
from typing import Any

from untrace import jaxapi
from untrace.capture import Captured
from untrace.emission import Module
from untrace.lifting.spelling.arrays import write_sidecar
from untrace.verification.compare import compare
from untrace.verification.equivalence import equivalent
from untrace.verification.locate import source_line
from untrace.verification.numeric import outputs_agree
from untrace.verification.report import Report
from untrace.verification.retrace import execute, retrace


def check(module: Module, captured: Captured, notes: tuple[str, ...] = ()) -> Report:
    """Execute, trace and compare; the report says which strength was reached.

    A module that does not run or trace is a failed verification, not an exception: the
    caller may print it differently, and the user still gets the text.
    """
    try:
        with jaxapi.paused_collection():
            actual, filename = trace_module(module, captured)
    except Exception as error:  # generated code may fail in any way; it is reported
        return Report("failed", error, notes=notes)
    try:
        return _verdict(actual, filename, captured, notes, module.opened)
    finally:
        linecache.cache.pop(filename, None)  # of use only while differences are located


def _verdict(
    actual: Any,
    filename: str,
    captured: Captured,
    notes: tuple[str, ...],
    opened: frozenset[Any],
) -> Report:
    """Compare the jaxpr that a text traced to with the captured one."""
    unproved: list[str] = []
    with jaxapi.paused_collection():
        difference = compare(captured.jaxpr, actual, unproved)
    if difference is None:
        return Report("identical", None, "", tuple(unproved), notes)
    parting = equivalent(captured.jaxpr, actual, unproved, opened)
    line = source_line(actual, parting or difference, filename)
    if parting is None:
        return Report(
            "equivalent", difference, line, tuple(unproved), notes, traced=actual
        )
    agreement = outputs_agree(captured.jaxpr, actual, captured.values)
    if agreement:
        agreed = f"On the given inputs the outputs are {agreement}."
        return Report(
            "numeric",
            difference,
            line,
            tuple(unproved),
            (agreed, *notes),
            traced=actual,
            parting=parting,
        )
    return Report(
        "different", difference, line, tuple(unproved), notes, parting=parting
    )


def trace_module(module: Module, captured: Captured) -> tuple[Any, str]:
    """Execute a module, its sidecar beside it, and trace its function.

    Returns:
      The closed jaxpr, and the file name under which tracebacks know the text.
    """
    if not module.stored:
        executed = execute(module.text("Verification."))
        jaxpr = retrace(executed, module.name, captured, module.classes)
        return jaxpr, str(executed.__file__)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.py"
        digest = write_sidecar(path.with_suffix(".safetensors"), module.stored)
        text = module.with_sidecar(path.with_suffix(".safetensors").name, digest)
        executed = execute(text, str(path), str(path))
        return retrace(executed, module.name, captured, module.classes), str(path)
