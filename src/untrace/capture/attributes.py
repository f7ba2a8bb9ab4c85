"""Names for the children of pytree nodes that have none: the attributes that hold them.

A class may be flattened to a plain list. Putting it together again from marks shows
where each child goes: the object and what it is made of are searched for the marks.
"""

from __future__ import annotations

import itertools
import types
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import jax

from untrace import jaxapi
from untrace.objects import fields_of

MAX_DEPTH = 8
MAX_OBJECTS = 2000
MAX_NEAR = 200  # objects, where what is looked for may be anywhere
_Way = tuple[str, ...]
_Any = TypeVar("_Any")
_PLAIN = (int, float, complex, str, bytes, type(None))
_OPAQUE = (
    *(type, types.ModuleType, types.FunctionType, types.MethodType, str, bytes),
    jaxapi.Tracer,  # whose parts are JAX's
)


def attribute_names(value: Any) -> list[str]:
    """Return short names for the children of a node, "" where none is found.

    They are unique, and the same for all objects that are made alike. A word that ends
    several ways alone means the attribute of the object itself.
    """
    parts, treedef = jax.tree.flatten(value, is_leaf=lambda child: child is not value)
    marks = [object() for _ in parts]
    try:
        ways = _ways(jax.tree.unflatten(treedef, marks), marks)
    except Exception:  # foreign classes may look at their children
        ways = _ways(value, parts)
    n_alike = Counter(way[-1] for way in ways.values())
    names = [""] * len(parts)
    for position in sorted(ways, key=lambda position: len(ways[position])):
        way = ways[position]
        n_least = 1 if len(way) == 1 or n_alike[way[-1]] == 1 else 2
        names[position] = next(
            name for name in _longer(way, n_least) if name not in names
        )
    return names


def _longer(way: _Way, n_least: int) -> Iterator[str]:
    """Yield ever longer names for the end of a way."""
    for n_words in range(n_least, len(way) + 1):
        yield "_".join(way[-n_words:])
    for number in itertools.count(2):
        yield f"{'_'.join(way)}_{number}"


class Attributes:
    """The attributes that hold what is near in objects, each of which is searched once."""

    def __init__(self) -> None:
        # By the `id` of an object: it, and for the `id` of a part that and the last word.
        self._words: dict[int, tuple[Any, dict[int, tuple[Any, str]]]] = {}

    def holding(self, array: Any, holders: Iterable[Any]) -> str:
        """Return the last word of the way that leads to an array; "" if none does.

        Args:
          array: What objects may hold.
          holders: The objects, those that say most first.
        """
        for holder in holders:
            if holder is not array and not issubclass(type(holder), _PLAIN):
                _, word = self._near(holder).get(id(array), (None, ""))
                if word and not word.isdecimal():
                    return word
        return ""

    def order(self, holders: Iterable[Any]) -> dict[int, int]:
        """Return the places of what objects hold among all of that, by its `id`."""
        known = [
            self._near(one) for one in holders if not issubclass(type(one), _PLAIN)
        ]
        held = dict.fromkeys(part for near in known for part in near)
        return {part: place for place, part in enumerate(held)}

    def _near(self, holder: Any) -> dict[int, tuple[Any, str]]:
        """Return the last words of the shortest ways to what an object holds."""
        known = self._words.get(id(holder))
        if known is None:
            found: dict[int, tuple[Any, str]] = {}
            for part, way in _held(holder, MAX_NEAR):
                found.setdefault(id(part), (part, way[-1]))
            known = self._words[id(holder)] = holder, found
        return known[1]


def in_places(values: Sequence[_Any], places: Sequence[int | None]) -> list[_Any]:
    """Sort the values that have a place among themselves; the others stay where they are.

    >>> in_places("adcb", [0, 3, None, 1])
    ['a', 'b', 'c', 'd']
    """
    pairs = [(p, value) for p, value in zip(places, values) if p is not None]
    chosen = iter([value for _, value in sorted(pairs, key=lambda pair: pair[0])])
    return [v if p is None else next(chosen) for p, v in zip(places, values)]


def holds(value: Any, kind: type) -> bool:
    """Whether an object, or what it is made of, holds something of a class."""
    rest, seen = deque([value]), {id(value)}
    while rest and len(seen) < MAX_OBJECTS:
        held = rest.popleft()
        if issubclass(type(held), kind):
            return True
        if not issubclass(type(held), _PLAIN):
            new = {id(part): part for _, part in _parts(held) if id(part) not in seen}
            seen |= new.keys()
            rest.extend(new.values())
    return False


def _ways(value: Any, parts: Sequence[Any]) -> dict[int, _Way]:
    """Return the shortest ways from an object to its children, by their positions."""
    wanted: dict[int, list[int]] = {}
    for position, part in enumerate(parts):
        if part is not None:
            wanted.setdefault(id(part), []).append(position)
    found: dict[int, _Way] = {}
    for part, way in _held(value, MAX_OBJECTS, wanted):
        for position in wanted.get(id(part), ()):
            found.setdefault(position, way)
        if len(found) == len(parts):
            break
    return found


def _held(
    value: Any, max_objects: int, whole: Collection[int] = ()
) -> Iterator[tuple[Any, _Way]]:
    """Yield what an object is made of with the ways there, the shortest first.

    Args:
      value: The object.
      max_objects: How many are looked into.
      whole: The `id`s of parts that are not looked into.
    """
    rest: deque[tuple[Any, _Way]] = deque([(value, ())])
    seen = {id(value)}
    while rest and len(seen) < max_objects:
        held, way = rest.popleft()
        for word, part in _parts(held):
            longer = (*way, word) if word else way
            if longer:
                yield part, longer
            is_whole = longer and id(part) in whole
            if not is_whole and id(part) not in seen and len(longer) < MAX_DEPTH:
                seen.add(id(part))
                rest.append((part, longer))


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object or container holds, by names without underscores."""
    kind = type(value)  # `isinstance` would ask the object for its class
    if issubclass(kind, _OPAQUE):
        return
    if issubclass(kind, (tuple, list)):
        # A NamedTuple may be flattened to fewer than its fields.
        fields = kind.__dict__.get("_fields", ())
        is_named = type(fields) is tuple and len(fields) == len(value)
        names = map(str, fields) if is_named else itertools.repeat("")
        yield from ((str.strip(name, "_"), part) for name, part in zip(names, value))
        return
    held = value if issubclass(kind, dict) else fields_of(value)
    for name, part in dict.items(held):  # what a subclass does is the user's code
        if issubclass(type(name), str):
            yield str.strip(name, "_"), part
