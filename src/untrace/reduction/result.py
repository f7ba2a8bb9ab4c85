"""`Reduction`: the reproducer, how it was found, and how to keep it."""

from __future__ import annotations

import os
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
