"""What was verified, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on a generated module.

    Attributes:
      strength: "identical", "equivalent", "different", "failed" (the text does not
        run or trace) or "unverified" (not asked for).
      difference: The first difference, if there is one.
      unproved: What could not be compared, such as host callbacks.
      notes: What the header mentions: stand-ins, replaced classes.
      n_equations: Equations of the program, nested ones included.
      fingerprint: Digest of the captured program.
    """

    strength: str
    difference: Any = None
    unproved: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    n_equations: int = 0
    fingerprint: str = ""

    @property
    def is_verified(self) -> bool:
        """Tell whether the source was proved to be the captured program."""
        return self.strength in ("identical", "equivalent")

    def __str__(self) -> str:
        lines = [VERDICTS[self.strength]]
        if self.difference is not None:
            lines.append(str(self.difference))
        lines += [f"Not compared: {text}." for text in self.unproved]
        return "\n".join(lines)


VERDICTS = {
    "identical": "Verified: traces to the identical equations.",
    "equivalent": "Verified: traces to equivalent equations (dead code or jit wrappers differ).",
    "different": "NOT VERIFIED: the source does not trace to the captured program.",
    "failed": "NOT VERIFIED: the source could not be executed and traced.",
    "unverified": "Not verified (verification was switched off).",
}
