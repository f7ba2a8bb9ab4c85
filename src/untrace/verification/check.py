"""Verify a generated module against the captured program."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from untrace import jaxapi
from untrace.capture import Captured
from untrace.emission import Module
from untrace.lifting.arrays import write_sidecar
from untrace.verification.compare import compare
from untrace.verification.report import Report
from untrace.verification.retrace import execute, retrace


def check(module: Module, captured: Captured, notes: tuple[str, ...] = ()) -> Report:
    """Execute, trace and compare; the report says which strength was reached.

    A module that does not run or trace is a failed verification, not an exception: the
    caller may print it differently, and the user still gets the text.
    """
    failed = Report("failed", notes=notes)
    try:
        actual = trace_module(module, captured)
    except Exception as error:  # generated code may fail in any way; it is reported
        return replace(failed, difference=error)
    unproved: list[str] = []
    difference = compare(captured.jaxpr, actual, unproved)
    if difference is None:
        return Report("identical", None, tuple(unproved), notes)
    from untrace.verification.equivalence import equivalent

    if equivalent(captured.jaxpr, actual) is None:
        return Report("equivalent", difference, tuple(unproved), notes)
    return Report("different", difference, tuple(unproved), notes)


def trace_module(module: Module, captured: Captured) -> Any:
    """Execute a module, its sidecar beside it, and trace its function."""
    if not module.stored:
        executed = execute(module.text("Verification."))
        return retrace(executed, module.name, captured, module.classes)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.py"
        digest = write_sidecar(path.with_suffix(".safetensors"), module.stored)
        text = module.with_sidecar(path.with_suffix(".safetensors").name, digest)
        executed = execute(text, path=str(path))
        return retrace(executed, module.name, captured, module.classes)
