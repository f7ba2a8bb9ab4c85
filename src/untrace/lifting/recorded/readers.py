"""The public functions whose calls are recorded."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

from untrace import jaxapi
from untrace.lifting.spell_homes import public_objects


def public_readers() -> dict[types.CodeType, Any]:
    """Return how to read a call of each public function from its frame."""
    return _readers(len(sys.modules))


@functools.lru_cache(maxsize=1)
def _readers(n_modules: int) -> dict[types.CodeType, Any]:
    return jaxapi.call_readers(public_objects())
