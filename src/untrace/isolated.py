"""Verify in a fresh process, where nothing that this one has changed holds.

The process is one of the reducer's workers: a fork of one that has imported JAX alone,
with the environment variables that a process needs to start and to find its devices,
and no others. Modules are found where this process finds them, after its own. How the
process ends is a verdict, too: a crash, a hang and `os._exit(0)` are not "verified".
"""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from untrace import jaxapi
from untrace.errors import LoadError, UnverifiedWarning
from untrace.lifting.imports import ALIASES
from untrace.reduction.outcome import Job, Outcome, Run
from untrace.reduction.workers import run_job
from untrace.result import Source
from untrace.saved import Verdict, main_name
from untrace.verification.report import Report

TIMEOUT_S = 600.0

_NEEDED = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_\w+|TZ|TERM|TMPDIR|TEMP|TMP|SYSTEMROOT|WINDIR"
    r"|COMSPEC|PATHEXT|APPDATA|LOCALAPPDATA|PROGRAMDATA|USERPROFILE"
    r"|PYTHONPATH|PYTHONHOME|PYTHONUTF8|VIRTUAL_ENV|CONDA_PREFIX"
    r"|(DY)?LD_\w+|XDG_\w+|(CUDA|NVIDIA|ROCM|HIP|ROCR|TPU|LIBTPU)_\w+|XLA_\w+"
    r"|JAX_(PLATFORMS|NUM_CPU_DEVICES|\w+_VISIBLE_DEVICES)",
    re.IGNORECASE,
)
"""What a process needs to start, and to find packages and devices."""

_DEVICES = re.compile(r"xla_force_host_platform_device_count=(\d{1,4})\b")
"""How the header says that devices may be simulated."""

ALIASED = {alias: module for module, alias in ALIASES.items()}
_CALLED = re.compile(r"(?<![\w.])(jax|jnp|np)\.([\w.]+)")
_IMPORTED = re.compile(r"^ *from (jax[\w.]*) import ([\w, ]+)$", re.MULTILINE)
"""What of JAX a generated text names."""

MAX_NAMED = 5

CONFIRMED = "Verified in a fresh process, too."
NOT_CONFIRMED = (
    "Not verified in a fresh process: what has no fixed sizes has no fingerprint."
)


def verify_isolated(path: Path, timeout_s: float = TIMEOUT_S) -> Verdict:
    """Compare a saved file with its fingerprint in a fresh process, which executes it.

    Args:
      path: A file that untrace wrote.
      timeout_s: Time after which the process is ended, in seconds.

    Raises:
      LoadError: If the file is not one of ours, or it or its sidecar does not load.
    """
    flags = flags_for(path)
    env = tuple(sorted({**dict(clean_environment()), **flags}.items()))
    run = Run("verify", env=env, is_whole_env=True, timeout_s=timeout_s)
    outcome = run_job(Job(str(path.resolve()), "", (), run))
    if outcome.status == "ok":
        return Verdict(outcome.exit_status == 0, outcome.message)
    if outcome.status == "raised":
        raise LoadError(outcome.message)
    ended = f"not verified: the process that traced {path} {_end(outcome, timeout_s)}."
    return Verdict(False, "\n".join(filter(None, [ended, outcome.stderr.strip()])))


def flags_for(path: Path) -> dict[str, str]:
    """The environment variable that simulates the devices which a saved file needs."""
    devices = _DEVICES.search(path.read_text(encoding="utf-8", errors="replace"))
    given = os.environ.get("XLA_FLAGS", "")
    if devices is None or _DEVICES.search(given):
        return {}
    return {"XLA_FLAGS": f"{given} --{devices[0]}".strip()}


def clean_environment() -> tuple[tuple[str, str], ...]:
    """Return the environment variables that a fresh process gets, sorted."""
    return tuple(sorted((k, v) for k, v in os.environ.items() if _NEEDED.fullmatch(k)))


def settled(
    source: Source,
    recover: Callable[[str], Source],
    is_asked: bool,
    progress: Callable[[str], None] | None = None,
) -> Source:
    """Verify proved source once more in a fresh process, if asked for or in doubt.

    It is in doubt where functions of JAX have been replaced in this process.

    Args:
      source: What was recovered.
      recover: Recovers it from its equations, whose text calls less of JAX, given a
        note that says so.
      is_asked: It is not only done in doubt.
      progress: Called with a word at the start.

    Returns:
      Source with notes that say what was found. If the text traces to another program
      there, and that from equations, too, its report is not verified, of which an
      `UnverifiedWarning` tells.
    """
    if not source.report.is_verified:
        return source
    doubts = _doubts(source)
    if not (is_asked or doubts):
        return source
    (progress or (lambda stage: None))("verifying in a fresh process")
    made = _confirmed(_with_notes(source, doubts))
    if not made.report.is_verified and doubts and source.captured.recording is not None:
        again = recover(
            'Written at level "lax", since calls mean something else elsewhere.'
        )
        if again.report.is_verified:
            again = _confirmed(_with_notes(again, doubts))
        made = again if again.report.is_verified else made
    if not made.report.is_verified:
        warnings.warn(
            f"`{made.module.name}`: {made.report}", UnverifiedWarning, stacklevel=4
        )
    return made


def _doubts(source: Source) -> tuple[str, ...]:
    """Say what of JAX is not its own in this process."""
    text = source.module.body
    dotted = {f"{ALIASED[root]}.{rest}" for root, rest in _CALLED.findall(text)}
    for module, names in _IMPORTED.findall(text):
        dotted |= {f"{module}.{name.split()[0]}" for name in names.split(", ")}
    found = {name: "" for name in jaxapi.exchanged_names(dotted)}
    found |= jaxapi.replaced_functions()
    if not found:
        return ()
    shown = [
        f"`{name}` ({_printable(Path(file).name)})"
        if file and not source.options.anonymous
        else f"`{name}`"
        for name, file in list(found.items())[:MAX_NAMED]
    ]
    more = len(found) - len(shown)
    rest = f" and {more} more" if more else ""
    return (f"Not JAX's own in the process that wrote this: {', '.join(shown)}{rest}.",)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


def _confirmed(source: Source) -> Source:
    """Verify proved source in a fresh process; the report says whether that holds."""
    if main_name(str(source)) is None:
        return _with_notes(source, (NOT_CONFIRMED,))
    with tempfile.TemporaryDirectory(prefix="untrace-") as folder:
        path = source.save(Path(folder) / "module.py")
        try:
            verdict = verify_isolated(path)
        except LoadError as error:
            verdict = Verdict(False, str(error))
    if verdict.is_verified:
        return _with_notes(source, (CONFIRMED,))
    said = str(verdict).replace(str(path), "it")
    why = None if said.startswith("difference") else LoadError(said)
    return _with_report(
        source, replace(source.report, strength="local", difference=why)
    )


def _with_notes(source: Source, more: tuple[str, ...]) -> Source:
    notes = (*source.report.notes, *more)
    return _with_report(source, replace(source.report, notes=notes))


def _with_report(source: Source, report: Report) -> Source:
    return replace(source, report=report, _text=[])


def _end(outcome: Outcome, timeout_s: float) -> str:
    """Say how a process ended without a verdict."""
    if outcome.status == "timeout":
        return f"took longer than {timeout_s:g} seconds"
    if outcome.status == "lost":
        return f"could not be run: {outcome.message}"
    if outcome.signal is not None:
        return f"was ended by {outcome.signal_name}"
    return f"ended with status {outcome.exit_status} and said nothing"
