"""What is raised where a recorded call cannot be written as it was made."""

from __future__ import annotations

from typing import Any

from untrace import jaxapi
from untrace.errors import LiftingError
from untrace.optional import Signal


class Unwritable(LiftingError, Signal):
    """A recorded call that cannot be written as it was made."""


class UnknownArray(Unwritable):
    """An array that no name in sight holds.

    Attributes:
      value: All that was to be written, which it is part of.
    """

    def __init__(self, array: Any) -> None:
        kind = jaxapi.short_type(array.aval)
        super().__init__(f"no recorded call made the {kind} that is used")
        self.array = self.value = array
