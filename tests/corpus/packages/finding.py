"""What the judge found of one case at one level, and its form as a line of JSON."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field

VERIFIED = ("identical", "equivalent")
NOT_OURS = ("not installed", "case fails")


@dataclass
class Finding:
    """What came of one case at one level; checks that were not reached are "".

    Attributes:
      outcome: A strength of the report; "raises", "crashes" or "timeout"; or, which is
        not held against untrace, "not installed" or "case fails".
      detail: The error or difference.
      frame: The innermost function of untrace that an error passed through.
      equations: Equations of the original, nested ones included.
      origin: At level "api": "calls", "regions" or "equations".
      imports: Packages that the text imports, beside JAX, NumPy and Python's own.
      left_out: Steps that make text better and that it is written without, since it could
        not be made or proved with them.
      saved: Whether the saved file imports, and `example_args` works.
      values: The text's function under `jit`, at the captured leaves: "equal" means
        the bits of the original.
      load: `load()` called as the user calls the original: "works", "own types"
        (the result's types are not the user's), "differs: ..." or "raises: ...".
      jit: The loaded function under `jit`: "works" means equal bits.
      vmap: The same over two copies of all arrays, up to rounding.
      grad: The same for the gradient of the sum of squares, up to rounding.
    """

    name: str
    package: str
    level: str
    jax: str = ""
    outcome: str = ""
    detail: str = ""
    frame: str = ""
    equations: int = 0
    trace_seconds: float = 0.0
    source_seconds: float = 0.0
    lines: int = 0
    origin: str = ""
    imports: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    saved: str = ""
    values: str = ""
    load: str = ""
    jit: str = ""
    vmap: str = ""
    grad: str = ""

    @property
    def is_verified(self) -> bool:
        """Whether the text was proved."""
        return self.outcome in VERIFIED

    @property
    def counts(self) -> bool:
        """Whether the program itself runs here."""
        return self.outcome not in NOT_OURS

    def to_json(self) -> str:
        """Return one line."""
        return json.dumps(dataclasses.asdict(self))


def from_json(line: str) -> Finding:
    """Read one line."""
    return Finding(**json.loads(line))
