"""Say of which objects files that keep types take any, though what they hold is fixed.

Static fields of dataclasses are no children in a pytree: a program is traced with what
they held, and a file takes objects of the class that hold anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from untrace.capture.trees import MAPPINGS

_CONTAINERS = (tuple, list, dict, type(None), *MAPPINGS)


def fixed_note(structure: Any) -> list[str]:
    """Return the notes about the objects in arguments of some structure."""
    names = sorted({kind.__name__ for kind in _holding(structure)})
    if not names:
        return []
    listed = ", ".join(names)
    return [f"What {listed} has beside arrays is fixed at what it was."]


def _holding(structure: Any) -> Iterator[type]:
    """Yield the classes of nodes that hold more than their children."""
    node = structure.node_data()
    if node is None:
        return
    kind, rest = node
    if not (kind in _CONTAINERS or issubclass(kind, tuple) or _is_nothing(rest)):
        yield kind
    for child in structure.children():
        yield from _holding(child)


def _is_nothing(rest: Any) -> bool:
    return rest is None or (type(rest) in (tuple, list) and all(map(_is_nothing, rest)))
