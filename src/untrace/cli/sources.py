"""Print or save a recovered source, say what was verified, and end."""

from __future__ import annotations

import shlex
import sys
from typing import Any, NoReturn

import click
from click.core import ParameterSource
from rich.console import Console

from untrace.cli.messages import DIFFERENT, ERR, VERIFIED, explained, say
from untrace.idle import idle_notes

TERMINAL_CHARS = 1 << 12
PIPED_CHARS = 1 << 22
"""Most characters of compressed constants that are printed."""


def deliver(src: Any, output: str | None) -> NoReturn:
    """Print a `Source`, or save it where the user says; exit as its report says."""
    from untrace.highlight import to_terminal

    if output is None:
        console = Console(highlight=False, soft_wrap=True)
        limit = TERMINAL_CHARS if console.is_terminal else PIPED_CHARS
        text = src.printed(limit, again("-o", f"{src.name}.py"))
        to_terminal(text, console)
    else:
        _save(src, output)
    _report(src)


def again(*more: str) -> str:
    """Write the command that runs, with more arguments."""
    context = click.get_current_context()
    words = [context.command_path]
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        values = value if isinstance(value, tuple) else (value,)
        for one in values:
            if isinstance(parameter, click.Option):
                is_off = one is False and parameter.secondary_opts
                words.append(
                    (parameter.secondary_opts if is_off else parameter.opts)[-1]
                )
            if not isinstance(one, bool):
                words.append(shlex.quote(str(one)))
    return " ".join([*words, *map(shlex.quote, more)])


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
    for note in idle_notes(src):
        say(note, "yellow")
    if src.parity is not None:
        style = "green" if src.parity.is_close else "bold red"
        ERR.print(str(src.parity), style=style, markup=False)
    if report.strength == "unverified":
        sys.exit(VERIFIED)
    style = "green" if report.is_verified else "bold red"
    n = report.n_equations
    say(f"{n} equation{'s' * (n != 1)}. {report}", style)
    is_equal = src.parity is None or src.parity.is_close
    sys.exit(VERIFIED if report.is_verified and is_equal else DIFFERENT)
