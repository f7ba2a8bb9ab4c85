"""Runs that the recording does not hold, such as those of rules that it did not need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from untrace import jaxapi
from untrace.recovery.record import Body

_Made = TypeVar("_Made")


@dataclass(eq=False, slots=True)
class TracedApart:
    """What was traced apart, once for all writings of the program.

    Attributes:
      runs: The runs, in the order in which they were asked for.
      batches: How primitives of libraries are batched, in these and in the program.
    """

    runs: list[Body] = field(default_factory=list)
    batches: jaxapi.Batches = field(default_factory=dict)
    _known: dict[Any, Any] = field(default_factory=dict)

    def once(self, key: Any, trace: Callable[[], _Made]) -> _Made:
        """Return what `trace` returns: runs, alone or in containers."""
        if key not in self._known:
            with jaxapi.noting_batches(self.batches):
                made = self._known[key] = trace()
            self.runs += _runs(made)
        return self._known[key]


def _runs(value: Any) -> Iterator[Body]:
    if isinstance(value, Body):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _runs(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _runs(part)
