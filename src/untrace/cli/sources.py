"""Print or save a recovered source, say what was verified, and end."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from rich.console import Console

from untrace.cli.messages import DIFFERENT, ERR, VERIFIED, explained, say


def deliver(src: Any, output: str | None) -> NoReturn:
    """Print a `Source`, or save it where the user says; exit as its report says."""
    from untrace.highlight import to_terminal

    if output is None:
        to_terminal(str(src), Console(highlight=False, soft_wrap=True))
    else:
        _save(src, output)
    _report(src)


def _save(src: Any, output: str) -> None:
    with explained():
        path = src.save(output)
    n_lines = str(src).count("\n")
    stored = src.module.stored
    sidecar = (
        f" and {path.with_suffix('.safetensors').name} ({len(stored)} arrays)"
        if stored
        else ""
    )
    say(f"wrote {path} ({n_lines} lines){sidecar}")


def _report(src: Any) -> NoReturn:
    report = src.report
    if src.parity is not None:
        style = "green" if src.parity.is_close else "bold red"
        ERR.print(str(src.parity), style=style, markup=False)
    if report.strength == "unverified":
        sys.exit(VERIFIED)
    style = "green" if report.is_verified else "bold red"
    n = report.n_equations
    ERR.print(f"{n} equation{'s' * (n != 1)}. {report}", style=style, markup=False)
    is_equal = src.parity is None or src.parity.is_close
    sys.exit(VERIFIED if report.is_verified and is_equal else DIFFERENT)
