"""What a function makes of modules that it changes in place.

A training step of flax.nnx updates the model and the optimizer that it is given, and
returns the loss. As a function without side effects it returns them, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax

from untrace.capture.inputs import is_stateful


class Changes:
    """Watches the modules among the arguments of one run.

    Args:
      arguments: The arguments by position or keyword, before the run.
    """

    def __init__(self, arguments: Mapping[Any, Any]) -> None:
        self._arguments = {k: v for k, v in arguments.items() if _has_module(v)}
        self._before = {k: _ids(v) for k, v in self._arguments.items()}
        self._kept = jax.tree.leaves(list(self._arguments.values()))
        self.keys: list[Any] = []

    def returned(self, result: Any) -> Any:
        """Return a result with the arguments behind it that were changed.

        `keys` tells which ones they are.
        """
        self.keys = [
            k for k, v in self._arguments.items() if _ids(v) != self._before[k]
        ]
        changed = [self._arguments[key] for key in self.keys]
        if not changed:
            return result
        parts = changed if result is None else [result, *changed]
        return parts[0] if len(parts) == 1 else tuple(parts)


def note(names: Sequence[str]) -> list[str]:
    """Say which arguments are returned, if any are."""
    if not names:
        return []
    *first, last = [f"`{name}`" for name in names]
    if not first:
        return [f"{last} is changed in place; what it becomes is returned, too."]
    listed = f"{', '.join(first)} and {last}"
    return [f"{listed} are changed in place; what they become is returned, too."]


def _has_module(value: Any) -> bool:
    return any(map(is_stateful, jax.tree.leaves(value, is_leaf=is_stateful)))


def _ids(value: Any) -> list[int]:
    return list(map(id, jax.tree.leaves(value)))
