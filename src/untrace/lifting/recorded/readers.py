"""The public functions whose calls are recorded."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

from untrace import jaxapi
from untrace.lifting.spell_homes import public_objects


def public_readers() -> dict[int, Any]:
    """Return how to read a call of each public function, by the `id` of its code.

    The program may import more of JAX while it runs, and then there are others.
    """
    n_modules = sum(
        name.startswith("jax.") and "._" not in name for name in sys.modules
    )
    return _readers(n_modules)[0]


@functools.lru_cache(maxsize=1)
def _readers(n_modules: int) -> tuple[dict[int, Any], list[types.CodeType]]:
    readers = jaxapi.call_readers(public_objects())
    return {id(code): reader for code, reader in readers.items()}, list(readers)
