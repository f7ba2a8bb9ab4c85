"""What a function makes of modules, lists and dicts that it changes in place.

A training step of flax.nnx updates the model and the optimizer that it is given, and
returns the loss. As a function without side effects it returns them, too. A list or dict
is changed in the trace alone, as under `jax.jit`; that is said.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from untrace.capture.inputs import is_stateful

MAX_DEPTH = 32


class Changes:
    """Watches the modules, lists and dicts among the arguments of one run.

    Args:
      arguments: The arguments by position or keyword, before the run.
    """

    def __init__(self, arguments: Mapping[Any, Any]) -> None:
        self._arguments = {k: v for k, v in arguments.items() if _has_module(v)}
        self._before = {k: _ids(v) for k, v in self._arguments.items()}
        self._containers = {k: (v, _held(v)) for k, v in arguments.items()}
        self._kept = jax.tree.leaves(list(arguments.values()))
        self.keys: list[Any] = []
        self.has_result = True

    def returned(self, result: Any) -> Any:
        """Return a result with the arguments behind it that were changed and are not in it.

        `keys` tells which ones they are, and `has_result` whether it is not None.
        """
        self.has_result = result is not None
        returned = set(_ids(result))
        self.keys = [
            key
            for key, value in self._arguments.items()
            if (ids := _ids(value)) != self._before[key] and not returned >= set(ids)
        ]
        changed = [self._arguments[key] for key in self.keys]
        if not changed:
            return result
        parts = changed if result is None else [result, *changed]
        return parts[0] if len(parts) == 1 else tuple(parts)

    def lost(self) -> list[Any]:
        """Name the arguments whose lists and dicts hold something else than before.

        Those in dataclasses count, too; modules in them are not looked at.
        """
        return [k for k, (v, held) in self._containers.items() if _held(v) != held]


def note(names: Sequence[str]) -> list[str]:
    """Say which arguments are returned, if any are."""
    if not names:
        return []
    *first, last = [f"`{name}`" for name in names]
    if not first:
        return [f"{last} is changed in place; what it becomes is returned, too."]
    listed = f"{', '.join(first)} and {last}"
    return [f"{listed} are changed in place; what they become is returned, too."]


def lost_note(names: Sequence[str]) -> list[str]:
    """Say which arguments are changed in a way that is lost, if any are."""
    if not names:
        return []
    listed = ", ".join(f"`{name}`" for name in names)
    return [f"Changed in place by the original, but not here: {listed}."]


def _held(value: Any, depth: int = 0) -> Any:
    """Return what lists, dicts and dataclasses hold, by identity."""
    if depth < MAX_DEPTH:  # a list may have been put into itself
        if isinstance(value, dict):
            return {id(k): _held(v, depth + 1) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        if isinstance(value, (list, tuple, collections.deque)):
            return [_held(v, depth + 1) for v in value]  # pyright: ignore[reportUnknownVariableType]
        if dataclasses.is_dataclass(value) and not is_stateful(value):
            fields = [one.name for one in dataclasses.fields(value)]
            return [_held(getattr(value, name, None), depth + 1) for name in fields]
    return id(value)


def _has_module(value: Any) -> bool:
    return any(map(is_stateful, jax.tree.leaves(value, is_leaf=is_stateful)))


def _ids(value: Any) -> list[int]:
    return list(map(id, jax.tree.leaves(value)))
