"""NamedTuples that stand for the classes of libraries, which the file cannot import.

A class has the fields that hold arrays, which may be others in each of its objects: a
library splits a state into two that have the fields of one between them. They are one
NamedTuple if their fields are in the same order; what one has not is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from untrace.capture.trees import Node, replaced_key
from untrace.lifting.lifter import Lifter
from untrace.syntax.names import identifier

Fields = tuple[Any, ...]


class StandIns:
    """The classes of one generated module.

    Attributes:
      classes: Name and text of each, by the original and the fields of its objects.
    """

    def __init__(self, lifter: Lifter, is_widening: bool) -> None:
        self.classes: dict[Any, tuple[str, list[str]]] = {}
        self._lifter = lifter
        self._is_widening = is_widening
        self._variants: dict[str, list[Fields]] = {}
        self._originals: dict[str, Any] = {}

    def name(self, node: Node) -> str:
        """Return the name of the NamedTuple for an object, which is defined once."""
        key = replaced_key(node)
        known = self.classes.get(key)
        if known is None:
            known = self.classes[key] = self._widened(node) or self._defined(node)
        return known[0]

    def _defined(self, node: Node) -> tuple[str, list[str]]:
        name = self._lifter.scope.fresh_global(identifier(node.cls.__name__, "Tree"))
        self._variants[name], self._originals[name] = [node.keys], node.cls
        return name, self._lines(name, node.keys)

    def _widened(self, node: Node) -> tuple[str, list[str]] | None:
        """Give a class the fields of another object of it, where these go together."""
        if not self._is_widening:
            return None
        for name, lines in self.classes.values():
            if self._originals[name] is not node.cls:
                continue
            variants = [*self._variants[name], node.keys]
            fields = _all_fields(variants)
            if fields is not None:
                self._variants[name] = variants
                lines[:] = self._lines(name, fields)
                return name, lines
        return None

    def _lines(self, name: str, fields: Fields) -> list[str]:
        named_tuple = self._lifter.imports.attribute("typing", "NamedTuple")
        kind = self._lifter.imports.attribute("typing", "Any") if fields else ""
        lines = [f"class {name}({named_tuple}):"]
        default = ""
        for field in fields:
            if not all(field in variant for variant in self._variants[name]):
                default = " = None"  # then those behind it need one, too
            lines.append(f"    {field}: {kind}{default}")
        return lines if fields else [*lines, "    pass"]


def _all_fields(variants: Sequence[Fields]) -> Fields | None:
    """Merge the fields of several objects; None if their orders disagree.

    The most fields come first: they tell the order of those that are not together elsewhere.
    """
    made: Fields | None = ()
    for fields in sorted(variants, key=len, reverse=True):
        made = merged(made, fields) if made is not None else None
    return made


def merged(first: Sequence[Any], second: Sequence[Any]) -> Fields | None:
    """Merge two sequences, each in its order; None if their orders disagree.

    >>> merged("ace", "abe")
    ('a', 'b', 'c', 'e')
    """
    made, position = list(first), 0
    for item in second:
        if item not in made:
            made.insert(position, item)
        elif made.index(item) < position:
            return None
        position = made.index(item) + 1
    return tuple(made)
