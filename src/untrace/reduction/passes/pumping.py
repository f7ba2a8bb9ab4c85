"""Grow the program where no step that makes it smaller leads on.

A loop over rows that stands in a sub-program does not give way to its body: taking a row
out and putting one back are more equations than the loop was. Opened all the same, the
program may still fail, and what it gained may go together with an axis.
"""

from __future__ import annotations

import sys
from typing import Any

from untrace.reduction.passes.bypassing import bypass
from untrace.reduction.passes.inside import cut_inside
from untrace.reduction.passes.loops import opened_inside
from untrace.reduction.passes.types import drop_axes, shrink_axes
from untrace.reduction.search import Search
from untrace.reduction.sizes import Size

LARGEST = Size(*[sys.maxsize] * len(Size._fields))
STEPS = (shrink_axes, drop_axes, cut_inside, bypass)


class Grown(Search):
    """A search of its own that may begin with a larger program than the best so far."""

    def __init__(self, outer: Search) -> None:
        super().__init__(
            outer.best, outer.judge, outer.n_jobs, outer.limits, self._tell
        )
        self.size = LARGEST
        self.stats, self.verdicts = outer.stats, dict(outer.verdicts)
        self.unfit = outer.unfit
        self._outer = outer

    @property
    def seconds(self) -> float:
        return self._outer.seconds

    def _tell(self, kind: str, facts: dict[str, Any]) -> None:
        """Pass on what was judged; what is accepted here is not the best so far."""
        if kind == "judged":
            self._outer.notify(kind, facts)


def pump(search: Search) -> None:
    """Open single loops inside; take what becomes of it if it ends smaller."""
    digest = search.digest(search.best)
    if digest in search.settled:
        return
    search.settled.add(digest)
    for grown in opened_inside(search.best):
        inner = Grown(search)
        if not inner.first(iter([grown])):
            continue
        for step in STEPS:
            step(inner)
        search.verdicts |= inner.verdicts
        if search.first(iter([inner.best])):
            return
