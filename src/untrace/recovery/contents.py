"""What objects hold in their own attributes, looked at without running code of theirs."""

from __future__ import annotations

import functools
import inspect
import operator
import types
from collections.abc import Callable, Collection, Sequence
from itertools import chain
from typing import Any, NamedTuple

MISSING = object()
"""Stands for the value of a field without one: the object is still being made."""


def fields(kind: Any, value: Any) -> list[Any]:
    """Return what an instance of a dataclass itself holds in its fields.

    Of one that is still being made, the class may make a bound method of a function that
    is the field's default; in equinox that holds the instance, and so on without end.
    Classes may have an own `__getattribute__`, which is not run either.
    """
    slots = _field_slots(kind)
    found = [_slot(value, slot) for slot in slots.values()]
    held = _dict(value)
    if held is None:
        return found
    names = kind.__dataclass_fields__
    return found + [held.get(n, MISSING) for n in names if n not in slots]


class Reading(NamedTuple):
    """One look into an object.

    Attributes:
      read: Returns what is there now.
      found: What was there.
    """

    read: Callable[[], Collection[Any]]
    found: Collection[Any]


def attributes(value: Any) -> Reading | None:
    """Return how to look at an object's slots and its `__dict__`.

    There is no such look (None) if the object has neither, is still being made, or if its
    class runs code of its own for that.
    """
    found = _attributes(type(value))
    if not found or any(_slot(value, one) is MISSING for one in found.values()):
        return None
    names = found if len(found) > 1 else [*found] * 2  # so that it returns a tuple
    read = functools.partial(operator.attrgetter(*names), value)
    return Reading(read, read())


def held_attributes(value: Any) -> list[tuple[str, Any]]:
    """Return the attributes of an object with their names, without running code of it."""
    descriptors = _attributes(type(value))
    slots = [(name, _slot(value, one)) for name, one in descriptors.items()]
    found = [(name, one) for name, one in slots if name != "__dict__"]
    return [*found, *(_dict(value) or {}).items()]


def items(container: dict[Any, Any] | list[Any]) -> list[Reading]:
    """Return how to look at the items of a container."""
    if type(container) is list:
        return [Reading(container.copy, container.copy())]
    assert isinstance(container, dict)
    keys, values = container.keys, container.values
    return [Reading(keys, [*container]), Reading(values, [*values()])]


class Look:
    """Looks into an object again.

    Args:
      readings: What there is to see.
    """

    def __init__(self, readings: Sequence[Reading]) -> None:
        self.readings = readings
        self._reads = [reading.read for reading in readings]
        found = [reading.found for reading in readings]
        self._sizes, self._found = list(map(len, found)), list(chain(*found))

    def finds_the_same(self) -> bool:
        """Whether everything is still there, and nothing else."""
        now = list(map(operator.call, self._reads))
        return list(map(len, now)) == self._sizes and all(
            map(operator.is_, chain(*now), self._found)
        )


def _dict(value: Any) -> dict[str, Any] | None:
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:  # it has only slots
        return None


@functools.lru_cache(maxsize=4096)
def _field_slots(kind: Any) -> dict[str, types.MemberDescriptorType]:
    """Return the fields of a dataclass that are no entries of its instances' dicts."""
    found = {
        n: inspect.getattr_static(kind, n, None) for n in kind.__dataclass_fields__
    }
    is_slot = types.MemberDescriptorType
    return {name: slot for name, slot in found.items() if isinstance(slot, is_slot)}


@functools.lru_cache(maxsize=4096)
def _attributes(kind: Any) -> dict[str, Any]:
    """Return the descriptors of a class's slots, and that of its `__dict__`."""
    found = {
        name: value
        for base in reversed(kind.__mro__)
        for name, value in vars(base).items()
        if type(value) is types.MemberDescriptorType or name == "__dict__"
    }
    is_plain = kind.__getattribute__ is object.__getattribute__ and all(
        isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType))
        and inspect.getattr_static(kind, name) is value
        for name, value in found.items()
    )
    return found if is_plain else {}


def _slot(value: Any, slot: Any) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return MISSING
