"""`Reduction`: the reproducer, how it was found, and how to keep it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from untrace.errors import SaveError
from untrace.reduction.keeping import Keep
from untrace.reduction.plot import plot_svg
from untrace.reduction.program import Program
from untrace.reduction.search import Stats, Step
from untrace.reduction.wording import counted, duration, is_module_name
from untrace.result import Source, write_text


@dataclass(frozen=True, eq=False, repr=False)
class Reduction:
    """A reduced program.

    Attributes:
      source: The reproducer; `str(reduction.source)` is its text.
      program: The same in the internal form, with the values of its inputs.
      keep: The pinned predicate that it fulfils.
      stats: Counts of runs, candidates, other failures; wall time in seconds.
      history: The accepted steps, with the size after each.
      start: Equations of the original.
      others: The smallest program seen for each other failure, by its label.
      ended: Why it ended before nothing helped any more; "" if it did not.
      notes: What the user should know.
      control: With which other inputs the original does not fail; "" if none were
        asked for.
    """

    source: Source
    program: Program
    keep: Keep
    stats: Stats
    history: tuple[Step, ...]
    start: int
    others: dict[str, Program]
    ended: str = ""
    notes: tuple[str, ...] = ()
    control: str = ""

    @property
    def args(self) -> tuple[Any, ...]:
        """Return the inputs of the reproducer, by position."""
        return self.program.values

    @property
    def n_equations(self) -> int:
        """Count the equations that are left."""
        return self.history[-1].size.equations if self.history else self.start

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the reproducer, with a sidecar if its inputs are large.

        Raises:
          SaveError: If the place cannot be written, or a file of this name would be
            imported in the place of a module, such as `random.py`.
        """
        stem = Path(path).stem
        if is_module_name(stem):
            raise SaveError(
                f"{Path(path).name} would be imported in the place of the module `{stem}` "
                f"when it is run. Save it as {stem}_repro.py."
            )
        return self.source.save(path)

    def plot(self, path: str | os.PathLike[str] | None = None) -> str:
        """Draw size over runs as SVG; write it to `path`, if one is given."""
        title = f"{self.start:,} \N{RIGHTWARDS ARROW} {counted(self.n_equations, 'equation')}"
        drawn = plot_svg(self.history, self.start, self.stats.runs, title)
        if path is not None:
            write_text(Path(path), drawn)
        return drawn

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        bisect_flags: bool = False,
        bisect_jax: str | None = None,
        pythons: Sequence[str] = (),
    ) -> str:
        """Write a report for a bug tracker, as Markdown.

        It holds what fails, the program, what it says when it is run, versions, and
        which flags of XLA and options of JAX change that, which is tried.

        Args:
          path: Where it goes; it is returned in any case.
          bisect_flags: Look for the passes of XLA without which the program is fine.
          bisect_jax: "FIRST..LAST": install versions of JAX between these two in
            temporary environments, and find the one with which the failure begins.
          pythons: Paths of other interpreters that have JAX, to be tried as well.

        Raises:
          KeepError: If the versions of JAX cannot be had.
          SaveError: If the place cannot be written.
        """
        from untrace.reduction.report import full_report  # it takes reductions

        text = full_report(self, bisect_flags, bisect_jax, pythons)
        if path is not None:
            write_text(Path(path), text)
        return text

    def summary(self) -> str:
        """Say what was reached, in a line or two."""
        stats = self.stats
        lines = [
            f"from {self.start:,} to {counted(self.n_equations, 'equation')}, "
            f"{counted(stats.runs, 'run')}, {duration(stats.seconds)}"
        ]
        if self.ended:
            lines.append(f"It could be smaller: {self.ended}.")
        for label, count in stats.other_failures.most_common(5):
            lines.append(f"Also seen, and set aside ({count} times): {label}")
        return "\n".join([*lines, *self.notes])

    def __repr__(self) -> str:
        return f"<untrace.Reduction: {self.summary().splitlines()[0]}>"
