"""Give the same program and the same predicate to a reducer of text, for comparison.

shrinkray (https://pypi.org/project/shrinkray) gets the whole program as one file with
its predicate at the end, and a script that runs a file and wants the same exit status
and the same last line on standard error, whatever the numbers in it are. Runs are
counted by the script. Set `SHRINKRAY` to the command if it is in another environment.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tokenize
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import jax

from untrace.capture.capture import capture
from untrace.reduction.applying import program_from
from untrace.reduction.driver import Plan, pin
from untrace.reduction.keeping import parse_keep
from untrace.reduction.loading import input_names
from untrace.reduction.reproducer import Story, unreduced

ROOT = Path(__file__).parent.parent.parent
LIMIT_S = float(os.environ.get("SHRINKRAY_SECONDS", "600"))

CHECK = """\
#!{python}
import os, re, subprocess, sys
with open({log!r}, "a") as log:
    log.write("run\\n")
try:
    done = subprocess.run(
        [{python!r}, sys.argv[1]], capture_output=True, text=True, timeout=60,
        env=dict(os.environ, PYTHONPATH={root!r}),
    )
except subprocess.TimeoutExpired:
    sys.exit(1)
same = done.returncode == {status} and re.search({pattern!r}, done.stderr)
sys.exit(0 if same else 1)
"""


@dataclass(frozen=True)
class TextRow:
    """What the reducer of text reached."""

    tokens_before: int
    tokens: int
    runs: int
    is_finished: bool


def n_tokens(text: str) -> int:
    """Count the tokens of a file, without comments and layout."""
    kinds = (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING)
    try:
        tokens = list(tokenize.generate_tokens(StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return len(text.split())
    return sum(token.type in kinds for token in tokens)


def text_of(case: ModuleType) -> Any:
    """Write the whole program of a case with its predicate at the end."""
    keep = parse_keep(case.KEEP)
    found = capture(case.PROGRAM, case.arguments(), {})
    names = input_names(found)
    program = program_from(found.jaxpr, found.values, names, found.name)
    keep = pin(program, keep, Plan()).keep
    return unreduced(program, keep, Story("a program", 0, 0, 0, 0.0))


def reduce_text(case: ModuleType) -> TextRow:
    """Run the reducer of text on a case."""
    command = os.environ.get("SHRINKRAY") or shutil.which("shrinkray")
    if command is None:
        raise SystemExit("shrinkray is not installed: pip install shrinkray")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = text_of(case).save(folder / "program.py")
        text = path.read_text()
        here = f"Path({str(path)!r})"  # candidates lie elsewhere
        text = text.replace("Path(__file__)", here)
        path.write_text(text)
        log, check = folder / "runs.log", folder / "check.py"
        check.write_text(_check(path, log))
        check.chmod(0o755)
        arguments = ["--no-llm", "--timeout=90", "--parallelism=1", "--ui=basic"]
        try:
            subprocess.run(
                [command, *arguments, str(check), str(path)],
                timeout=LIMIT_S,
                capture_output=True,
                check=False,
                cwd=folder,
            )
            is_finished = True
        except subprocess.TimeoutExpired:
            is_finished = False
        runs = log.read_text().count("run") if log.exists() else 0
        return TextRow(n_tokens(text), n_tokens(path.read_text()), runs, is_finished)


def _check(path: Path, log: Path) -> str:
    """Write a script that wants what the whole program does."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, env=environment
    )
    lines = [line for line in done.stderr.splitlines() if line.strip()] or [""]
    pattern = re.sub(
        r"(\\?-?\d+(\\\.\d+)?(e\\?[+-]\d+)?|nan|inf)", ".*", re.escape(lines[-1][:60])
    )
    return CHECK.format(
        python=sys.executable,
        log=str(log),
        root=str(ROOT),
        status=done.returncode,
        pattern=pattern,
    )


def compared(case: ModuleType, tokens: int, runs: int) -> str:
    """Write a row: tokens and runs of both."""
    row = reduce_text(case)
    more = "" if row.is_finished else f", stopped after {LIMIT_S:.0f} s"
    return (
        f"|   shrinkray on the text: {row.tokens_before:,} -> {row.tokens:,} tokens in "
        f"{row.runs} runs{more}; ours: {tokens} tokens in {runs} runs "
        f"(jax {jax.__version__}) |"
    )
