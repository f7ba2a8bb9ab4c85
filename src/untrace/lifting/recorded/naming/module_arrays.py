"""The names that the user's modules have for constant arrays.

A library may be given arrays before the program is traced, and keep them, or copies: no
call of the recording passes them by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.recovery.record import Body, is_library, runs_inside

MIN_COPIED = 8
"""How many elements an array has that is known by its values."""


class ModuleArrays:
    """Constant arrays among the variables of the modules that the user's functions are in.

    Args:
      roots: The runs of which all functions count.
    """

    def __init__(self, roots: Iterable[Body]) -> None:
        self._names: dict[int, str] = {}
        self._alike: dict[tuple[Any, ...], list[tuple[str, Any]]] = {}
        self._asked: list[Any] = []  # which stay alive, since they are known by `id`
        for space in _spaces(roots):
            for name, value in list(space.items()):
                if issubclass(type(value), (np.ndarray, jax.Array)):  # asks no object
                    self._names.setdefault(id(value), name)
                    self._alike.setdefault(_type(value), []).append((name, value))

    def name(self, array: Any) -> str:
        """Return the variable that holds an array, or one that is equal; "" if none does."""
        known = self._names.get(id(array))
        if known is None and not isinstance(array, jaxapi.Tracer):
            alike = self._alike.get(_type(array), ())
            equal = [name for name, value in alike if _is_copy(value, array)]
            known = self._names[id(array)] = equal[0] if len(equal) == 1 else ""
            self._asked.append(array)
        return known or ""


def _spaces(roots: Iterable[Body]) -> Iterable[dict[str, Any]]:
    runs = (run for root in roots for run in (root, *runs_inside(root)))
    return {id(r.space): r.space for r in runs if not is_library(r.code)}.values()


def _type(array: Any) -> tuple[Any, ...]:
    return tuple(array.shape), str(array.dtype)


def _is_copy(one: Any, other: Any) -> bool:
    """Whether arrays have the same bits, and not by chance: those of zeros are many."""
    try:
        values, others = np.asarray(one), np.asarray(other)
        if values.size < MIN_COPIED or values.tobytes() != others.tobytes():
            return False
        return bool((values != values.flat[0]).any())
    except Exception:  # keys have no values that NumPy knows, others may be deleted
        return False
