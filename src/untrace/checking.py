"""Hand a generated module, with its sidecar, to the checker."""

from __future__ import annotations

import tempfile
from pathlib import Path

from untrace.capture import Captured
from untrace.emission import Module
from untrace.lifting.spelling.arrays import write_sidecar
from untrace.verification.check import Candidate, check
from untrace.verification.report import Report


def check_module(
    module: Module,
    captured: Captured,
    notes: tuple[str, ...] = (),
    compares_values: bool = True,
    seeks_identical: bool = False,
) -> Report:
    """The verdict on a module: whether its text is the captured program (see `check`)."""
    if not module.stored:
        candidate = _candidate(module, module.text("Verification."))
        return check(candidate, captured, notes, compares_values, seeks_identical)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.py"
        sidecar = path.with_suffix(".safetensors")
        text = module.with_sidecar(sidecar.name, write_sidecar(sidecar, module.stored))
        candidate = _candidate(module, text, str(path))
        return check(candidate, captured, notes, compares_values, seeks_identical)


def _candidate(module: Module, text: str, path: str = "") -> Candidate:
    return Candidate(text, module.name, module.classes, path, module.opened)
