"""Run a reduction for the command line: what is shown before, while and after."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from untrace.printable import printable
from untrace.reducing import reduce
from untrace.reduction.journal import Journal
from untrace.reduction.keeping import parse_keep
from untrace.reduction.progress import JsonEvents, Progress
from untrace.reduction.result import Reduction
from untrace.reduction.wording import counted

_TOLD = {
    "interrupted": "Interrupted: the best program is run once more, and written. "
    "Interrupt again to have it written at once.",
    "hurried": "Interrupted: nothing more is run, and the best program is written.",
}
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Notify = Callable[[str, dict[str, Any]], None]


@dataclass
class _Doing:
    """What is being done, should somebody interrupt it."""

    stage: str = "trace the function"
    folder: str = ""

    def note(self, kind: str, facts: dict[str, Any]) -> None:
        """Receive an event."""
        if kind == "stage":
            self.stage = facts["name"]
        if kind == "pinned":
            self.folder = facts["folder"]

    def __str__(self) -> str:
        if self.folder:
            return f": the best program so far is in {self.folder}."
        return f' before a failure was found, at "{self.stage}"; nothing is written.'


def run_reduction(
    console: Console,
    function: Any,
    arguments: Arguments | None,
    options: dict[str, Any],
    is_quiet: bool,
    as_json: bool,
) -> Reduction:
    """Reduce with progress on standard error, or with events on standard output.

    Args:
      console: Standard error.
      function: What `untrace.reduce` takes.
      arguments: Positional and keyword arguments; None if `function` carries them.
      options: Keyword arguments of `untrace.reduce`.
      is_quiet: Show nothing.
      as_json: Write events as JSON.

    Raises:
      KeyboardInterrupt: If there is no result yet when it is interrupted; it says where
        that was.
    """
    doing = _Doing()

    def run(notify: Notify | None) -> Reduction:
        def noting(kind: str, facts: dict[str, Any]) -> None:
            doing.note(kind, facts)
            if notify is not None:
                notify(kind, facts)

        made = reduce(function, **options, notify=noting)
        if arguments is None:
            return made
        args, kwargs = arguments
        return made(*args, **kwargs)

    try:
        return _shown(console, run, is_quiet, as_json)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(str(doing)) from None


def _shown(
    console: Console,
    run: Callable[[Notify | None], Reduction],
    is_quiet: bool,
    as_json: bool,
) -> Reduction:
    if as_json:
        with JsonEvents(sys.stdout) as events:
            return run(events)
    if is_quiet:
        return run(None)
    found: dict[str, Any] = {}
    with Progress(console) as progress:

        def notify(kind: str, facts: dict[str, Any]) -> None:
            if kind in _TOLD:
                console.print(_TOLD[kind], style="yellow")
            if kind == "found":
                found.update(facts)
                _show_failure(console, facts)
            if kind == "pinned":
                progress.start = facts["start"]
                if facts["keep"] != found.get("keep"):
                    _show_failure(console, facts)
                _show_start(console, facts)
            progress(kind, facts)

        return run(notify)


def journal_runs(folder: Path) -> list[str]:
    """Return what a journal says to run beside its program: commands, interpreters.

    Raises:
      LoadError: If there is no journal.
      KeepError: If it cannot be read.
    """
    runs = parse_keep(str(Journal.open(folder).facts.get("keep"))).runs
    found: list[str] = []
    for run in runs:
        # Written as literals: the text may be made to look like something else.
        words = [repr(f"{name}={value}") for name, value in run.env]
        if run.action == "command":
            found.append(" ".join([*words, repr(run.command)]))
        elif run.env or run.python:
            found.append(" ".join([*words, repr(run.python or "python")]))
    return list(dict.fromkeys(found))


def _show_failure(console: Console, facts: dict[str, Any]) -> None:
    """Tell what fails and how it is pinned, as soon as it is known."""
    console.print(printable(f"{facts['description']}"), markup=False)
    console.print(printable(f"pinned: {facts['keep']}"), markup=False, style="bold")


def _show_start(console: Console, facts: dict[str, Any]) -> None:
    """Tell what the search begins with."""
    if facts.get("loss"):
        console.print(printable(facts["loss"]), markup=False)
    if facts.get("control"):
        console.print(printable(facts["control"]), markup=False)
    if facts.get("drawn"):
        console.print(printable(facts["drawn"]), markup=False, style="yellow")
    if facts["rate"] < 1:
        console.print(f"It shows in {facts['rate']:.0%} of the runs.", markup=False)
    console.print(
        printable(
            f"{counted(facts['start'], 'equation')}; "
            f"the best so far is in {facts['folder']}"
        ),
        markup=False,
        style="dim",
    )
