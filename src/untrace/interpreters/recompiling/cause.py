"""One thing for which JAX compiles a function again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that differs between two calls, for which JAX compiles anew.

    Attributes:
      kind: "function", "closure", "static argument", "structure", "keyword", "shape",
        "dtype", "weak type", "committed", "device", "sharding", "memory", "layout",
        "donation", "option", "config", "default device", "mesh" or "unknown".
      where: The argument, `params['dense']['kernel']`, or the name of what differs.
      what: What it was and what it is.
      advice: What to change.
    """

    kind: str
    where: str
    what: str
    advice: str

    def __str__(self) -> str:
        return f"{self.what}: {self.advice}" if self.advice else self.what
