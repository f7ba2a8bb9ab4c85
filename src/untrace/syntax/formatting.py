"""Lay a module out with `ruff format`.

Level "lax" writes ruff's layout itself (`layout.py`); at level "api" expressions are
folded, and whatever the user may write has to be laid out, so ruff does it.
"""

from __future__ import annotations

import functools
import subprocess
import sys

from untrace.optional import optional, unchanged
from untrace.syntax.layout import lay_out

TIMEOUT = 60  # seconds; formatting takes some milliseconds


@optional(unchanged)
def format_source(text: str, join_lines: bool = False) -> str:
    """Format Python source; if ruff cannot run, split the lines that are too long.

    Args:
      text: The source.
      join_lines: Join what was split and now fits on a line.
    """
    options = (
        ["--config", "format.skip-magic-trailing-comma=true"] if join_lines else []
    )
    try:
        done = subprocess.run(
            [*_command(), "format", "--isolated", "--line-length", "88", *options, "-"],
            input=text,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=TIMEOUT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "\n".join(lay_out(text.split("\n")))
    return done.stdout


@functools.cache
def _command() -> tuple[str, ...]:
    try:
        from ruff.__main__ import find_ruff_bin  # pyright: ignore
    except ImportError:
        return sys.executable, "-m", "ruff"
    return (str(find_ruff_bin()),)
