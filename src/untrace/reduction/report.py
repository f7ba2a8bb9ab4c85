"""The report for a bug tracker: what fails, the program, what it says, where else.

What the program says is had by running the very file, as the reader will.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Protocol

from untrace.errors import KeepError
from untrace.printable import printable
from untrace.reduction.bisecting import (
    culprit_passes,
    first_failing,
    versions_between,
    with_version,
    without,
)
from untrace.reduction.circumstances import given_settings, joined
from untrace.reduction.elsewhere import Asking, Finding, usual_findings
from untrace.reduction.keeping import Keep
from untrace.reduction.program import Program
from untrace.reduction.reproducer import versions
from untrace.reduction.trials import Judge
from untrace.result import Source

MAX_LINES = 40
"""Lines of what the program says that are shown: the last ones."""

RUN_S = 120.0
PACKAGES = ("numpy", "ml_dtypes")


class Reduced(Protocol):
    """What is needed of a `Reduction`."""

    @property
    def source(self) -> Source:
        """The file."""
        ...

    @property
    def program(self) -> Program:
        """The program in it."""
        ...

    @property
    def keep(self) -> Keep:
        """The pinned predicate."""
        ...


def full_report(
    reduction: Reduced,
    bisect_flags: bool = False,
    bisect_jax: str | None = None,
    pythons: Sequence[str] = (),
) -> str:
    """Find out where else a program fails, and write the report.

    Args:
      reduction: A finished reduction.
      bisect_flags: Look for the passes of XLA without which it is fine.
      bisect_jax: "FIRST..LAST": find the version of JAX with which the failure begins.
      pythons: Paths of other interpreters that have JAX.

    Raises:
      KeepError: If the versions are not known.
    """
    asking = Asking(reduction.program, Judge(reduction.keep))
    findings = usual_findings(asking, pythons)
    sentences: list[str] = []
    if bisect_flags:
        culprits = culprit_passes(asking)
        sentences.append(
            f"It is fine with `XLA_FLAGS={without(culprits)}`."
            if culprits
            else "No passes of XLA were found without which it is fine."
        )
    if bisect_jax is not None:
        versions_known = versions_between(*ends_of(bisect_jax))
        sentence, asked = first_failing(
            versions_known, lambda version: with_version(asking, version)
        )
        sentences.append(sentence)
        findings += asked
    return report(reduction, findings, sentences)


def ends_of(bisect_jax: str) -> tuple[str, str]:
    """Split "FIRST..LAST".

    Raises:
      KeepError: If it is none.
    """
    first, dots, last = bisect_jax.partition("..")
    if not (first and dots and last):
        raise KeepError(f"say FIRST..LAST, such as 0.9.0..0.10.2, not {bisect_jax!r}")
    return first, last


def report(
    reduction: Reduced,
    findings: Sequence[Finding] = (),
    sentences: Sequence[str] = (),
) -> str:
    """Write a report as Markdown.

    Args:
      reduction: A finished reduction.
      findings: What the program does in other circumstances.
      sentences: What else was found out.
    """
    text, said = _run(reduction)
    title = str(reduction.source.title).partition("\n\n")[0]
    parts = [
        " ".join(title.split()),
        *_section("Program", _fenced(text, "python")),
        *_section("What it says", _fenced(said, "text")),
        *_section("Versions", _versions(reduction)),
    ]
    if findings or sentences:
        parts += _section("Elsewhere", "\n".join([*sentences, *_table(findings)]))
    return "\n\n".join(parts) + "\n"


def _section(title: str, body: str) -> list[str]:
    return [f"### {title}", body]


def _fenced(text: str, language: str) -> str:
    """Put text into a block that nothing in it can end."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _run(reduction: Reduced) -> tuple[str, str]:
    """Return the text of the file, and what it says when it is run."""
    with tempfile.TemporaryDirectory(prefix="untrace-") as folder:
        path = reduction.source.save(Path(folder, "repro.py"))
        text = path.read_text(encoding="utf-8")
        command = [sys.executable, path.name, *_arguments(text)]
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=RUN_S,
            )
        except subprocess.TimeoutExpired:
            return text, f"(stopped after {RUN_S:g} s)"
    lines = done.stdout.decode(errors="replace").splitlines()[-MAX_LINES:]
    ended = f"(exit status {done.returncode})"
    if not done.returncode and not reduction.keep.how_to_check:
        ended = "(exit status 0: in this run it did not fail)"
    said = "\n".join(map(printable, [*lines, ended]))
    for place in {folder, os.path.realpath(folder)}:
        said = said.replace(place + os.sep, "")
    return text, _without_places(said)


def _arguments(text: str) -> list[str]:
    return ["--check"] if '"--check" in sys.argv' in text else []


def _without_places(text: str) -> str:
    """Leave out where things are installed on this machine."""
    places = (*sys.path, sys.prefix, sys.base_prefix, str(Path.home()))
    for place in sorted({p.rstrip(os.sep) for p in places}, key=len, reverse=True):
        if len(place) > 1:
            text = text.replace(place + os.sep, "")
    return text


def _versions(reduction: Reduced) -> str:
    installed = [f"{name} {_version(name)}" for name in PACKAGES]
    settings = [f"{name}={value}" for name, value in joined(given_settings())]
    needed = [f"{n}={v}" for run in reduction.keep.runs for n, v in run.env]
    lines = [
        f"- {versions()}",
        f"- {', '.join(installed)}",
        f"- {platform.system()} {platform.release()}, {platform.machine()}",
    ]
    if settings:
        lines.append(f"- set: `{printable(' '.join(settings))}`")
    if needed:
        lines.append(f"- needed: `{printable(' '.join(dict.fromkeys(needed)))}`")
    return "\n".join(lines)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "?"


def _table(findings: Sequence[Finding]) -> list[str]:
    if not findings:
        return []
    is_said = any(finding.said for finding in findings)
    heads = ["with", "the program", *(["it says"] if is_said else [])]
    rows = ["", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for finding in findings:
        cells = [f"`{finding.where}`", finding.verdict, *([finding.said] * is_said)]
        rows.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return rows


def _cell(text: str) -> str:
    return printable(" ".join(text.split())).replace("|", r"\|")[:200]
