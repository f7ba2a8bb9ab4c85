"""The public functions whose calls are recorded."""

from __future__ import annotations

import functools
import types
from typing import Any

from untrace import jaxapi
from untrace.lifting.spelling.homes import public_modules, public_objects


def public_readers() -> dict[int, Any]:
    """Return how to read a call of each public function, by the `id` of its code.

    The program may import more of JAX while it runs, and then there are others.
    """
    return _readers(len(public_modules()))[0]


@functools.lru_cache(maxsize=1)
def _readers(n_modules: int) -> tuple[dict[int, Any], list[types.CodeType]]:
    readers = jaxapi.call_readers(public_objects())
    return {id(code): reader for code, reader in readers.items()}, list(readers)
