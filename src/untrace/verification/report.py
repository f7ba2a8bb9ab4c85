"""What was verified, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from untrace import jaxapi
from untrace.printable import printable, printable_lines, reworded
from untrace.verification.difference import Difference, shorten

MAX_STATEMENT = 200  # characters of a statement that is shown


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on a generated module.

    Attributes:
      strength: "identical", "equivalent", "numeric" (the equations differ, the outputs
        agree on the given inputs), "rerolled" (the same, as the user asked for by
        `reroll="scan"`), "different", "failed" (the text does not run or
        trace), "local" (proved in this process, but not in a fresh one) or "unverified"
        (not asked for).
      difference: The first difference, if there is one, or the error of text that
        does not run.
      differences: How equivalent programs differ, a sentence each.
      line: Statement of the generated text that made the differing equation.
      unproved: What could not be compared, such as host callbacks.
      notes: What the header mentions: stand-ins, replaced classes.
      n_equations: Equations of the program, nested ones included.
      traced: The jaxpr that the text traced to, if it did.
      parting: Where the data flow parts, if it does: the first difference may be one
        that means nothing, such as dead code.
      interface: What a caller sees of the text's function.
      is_finite: Whether the outputs are finite on the given inputs, on which programs
        are run where values are all that can be compared; None if they were not run.
    """

    strength: str
    difference: Any = None
    line: str = ""
    unproved: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    n_equations: int = 0
    traced: Any = None
    parting: Any = None
    interface: Any = None
    differences: tuple[str, ...] = ()
    is_finite: bool | None = None

    @property
    def is_verified(self) -> bool:
        """Whether the source was proved to be the captured program."""
        return self.strength in ("identical", "equivalent", "rerolled")

    def difference_lines(self) -> list[str]:
        """Say where the generated text differs, if it does."""
        if self.difference is None:
            return []
        if isinstance(self.difference, Exception):
            error = self.difference
            return [printable(f"{type(error).__name__}: {error}")]
        return [
            printable_lines(str(self.parting or self.difference)),
            *(
                [printable(f"  made by {shorten(self.line, MAX_STATEMENT)}")]
                if self.line
                else []
            ),
        ]

    @property
    def blamed(self) -> tuple[Any, ...]:
        """The equations of the original around the difference, outermost first.

        None stands for one that is not known.
        """
        found = self.parting or self.difference
        return found.blamed if isinstance(found, Difference) else ()

    @property
    def why(self) -> str:
        """Why the text is not the program, as an end of a sentence about its calls."""
        found = self.parting or self.difference
        if isinstance(found, Exception):
            return f"what was written for them raised {reworded(_told(found))}"
        if not isinstance(found, Difference):  # of what a caller sees
            return reworded("; ".join(self.difference_lines()))
        if not found.indices:
            became = f"{found.expected} became {found.actual}"
            return reworded(f"a caller would see another one: {found.reason}, {became}")
        eqn = next((eqn for eqn in reversed(self.blamed) if eqn is not None), None)
        name = found.expected.partition(" ")[0] or "the whole"
        place = "" if eqn is None else jaxapi.users_place(eqn.source_info)
        at = f"`{name}` ({place})" if place else f"`{name}`"
        where = f" in {found.path}" if "/" in found.path else ""
        return (
            f"what was written for them computes something else, first at {at}{where}: "
            f"{found.reason}"
        )

    def __str__(self) -> str:
        lines = [VERDICTS[self.strength], *map(printable, self.differences)]
        lines += [] if self.is_verified else self.difference_lines()
        lines += [f"Not compared: {printable(text)}." for text in self.unproved]
        return "\n".join(lines)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


VERDICTS = {
    "identical": "Verified: traces to the identical equations.",
    "equivalent": "Verified: traces to equivalent equations.",
    "numeric": "NOT PROVED: the equations differ; the outputs agree on the given inputs.",
    "rerolled": "Rerolled as asked: the equations differ by design; the outputs agree on the given inputs.",
    "different": "NOT VERIFIED: the source does not trace to the captured program.",
    "local": "NOT VERIFIED: in a fresh process the source does not trace to the captured program.",
    "failed": "NOT VERIFIED: the source could not be executed and traced.",
    "unverified": "Not verified (verification was switched off).",
}
