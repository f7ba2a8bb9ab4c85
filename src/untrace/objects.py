"""What an object holds, without running what its class does for its attributes.

A class may answer for every attribute (`__getattr__`), `__dict__` included, and raise what
it likes where it has no answer.
"""

from __future__ import annotations

import functools
import types
from typing import Any


def attribute_of(value: Any, name: str) -> Any:
    """Return an attribute, also one that a class computes; None if that raises."""
    try:
        return getattr(value, name, None)
    except Exception:  # whatever `__getattr__` and properties of the user raise
        return None


def attributes_of(value: Any) -> dict[str, Any]:
    """Return what the `__dict__` of an object holds; nothing if it has only slots."""
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return held if isinstance(held, dict) else {}


def fields_of(value: Any) -> dict[str, Any]:
    """Return what an object holds in its `__dict__` and its slots."""
    held = dict(attributes_of(value))
    for name, slot in _slots(type(value)).items():
        try:
            held[name] = slot.__get__(value)
        except AttributeError:  # nothing is there
            continue
    return held


def closed_over(function: Any) -> dict[str, Any]:
    """Return what a Python function closes over, by name; nothing of any other object.

    A variable that has no value yet is left out.
    """
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    cells = getattr(function, "__closure__", None) or ()
    empty = types.CellType()
    return {n: cell.cell_contents for n, cell in zip(names, cells) if cell != empty}


@functools.lru_cache(maxsize=4096)
def _slots(kind: type) -> dict[str, types.MemberDescriptorType]:
    return {
        name: member
        for base in reversed(kind.__mro__)
        if base.__flags__ & _IS_PYTHON
        for name, member in vars(base).items()
        if type(member) is types.MemberDescriptorType
    }


_IS_PYTHON = 1 << 9  # `Py_TPFLAGS_HEAPTYPE`: what built-in classes hold is theirs
