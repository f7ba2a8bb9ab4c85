"""Hand a generated module, with its sidecar, to the checker."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Generator
from pathlib import Path
from types import ModuleType

from untrace.capture import Captured
from untrace.emission import Module
from untrace.lifting.spelling.sidecar import write_sidecar
from untrace.verification.check import Candidate, check
from untrace.verification.report import Report
from untrace.verification.retrace import execute


def check_module(
    module: Module,
    captured: Captured,
    notes: tuple[str, ...] = (),
    compares_values: bool = True,
    seeks_identical: bool = False,
) -> Report:
    """The verdict on a module: whether its text is the captured program (see `check`)."""
    with _placed(module) as candidate:
        return check(candidate, captured, notes, compares_values, seeks_identical)


def executed(module: Module) -> ModuleType:
    """Execute the text of a module."""
    with _placed(module) as candidate:
        path = candidate.path or None
        return execute(candidate.text, path, path)


@contextlib.contextmanager
def _placed(module: Module) -> Generator[Candidate, None, None]:
    """Make a text of a module, beside which its sidecar lies inside."""
    if not module.stored:
        yield _candidate(module, module.text("Verification."))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.py"
        sidecar = path.with_suffix(".safetensors")
        text = module.with_sidecar(sidecar.name, write_sidecar(sidecar, module.stored))
        yield _candidate(module, text, str(path))


def _candidate(module: Module, text: str, path: str = "") -> Candidate:
    return Candidate(text, module.name, module.classes, path, module.opened)
