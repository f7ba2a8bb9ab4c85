"""Copy what a program may change in place, as it is at this moment.

Lists and dicts may change, and so may pytrees of registered classes; tuples and frozen
dataclasses only if they hold such. Everything else is kept as it is.
"""

from __future__ import annotations

import functools
import inspect
import operator
import types
from collections.abc import Collection
from typing import Any, NamedTuple

import jax

from untrace import jaxapi

CONTAINERS = frozenset({tuple, list, dict})


class _Copy(NamedTuple):
    """A copy of an object.

    Attributes:
      value: The object, which is kept alive so that its `id` stays its own.
      treedef: How JAX puts it together again.
      parts: Copies of the parts that it consisted of.
      copied: The copy.
    """

    value: Any
    treedef: Any
    parts: list[Any]
    copied: Any


class Snapshots:
    """Copies values, and remembers the frozen ones that hold nothing that may change."""

    def __init__(self) -> None:
        self._fixed: dict[int, Any] = {}  # kept alive, so that each `id` stays its own
        self._copies: dict[int, _Copy] = {}

    def take(self, value: Any) -> Any:
        """Copy the containers that a program may change in place."""
        kind = type(value)
        if kind in _WHOLE:
            return value
        known = _KINDS.get(kind) or _learn(kind, value)
        if known == "whole":
            return value
        if known == "dict":
            if _WHOLE.issuperset(map(type, value.values())):
                return dict(value)
            return {key: self.take(item) for key, item in value.items()}
        if known == "list":
            if _WHOLE.issuperset(map(type, value)):
                return value.copy()
            return [self.take(item) for item in value]
        if kind is tuple:
            if _WHOLE.issuperset(map(type, value)):
                return value
            return tuple([self.take(item) for item in value])
        return self._copied(value) if self._changes(value) else value

    def _copied(self, value: Any) -> Any:
        """Copy a pytree of a registered class: take it apart, put it together again.

        One that has not changed since it was copied has one copy.
        """
        try:
            parts, treedef = jax.tree.flatten(value, lambda p: p is not value)
            taken = list(map(self.take, parts))
            known = self._copies.get(id(value))
            if known is not None and _is_made_alike(known, treedef, taken):
                return known.copied
            copied = jax.tree.unflatten(treedef, taken)
        except Exception:  # such as that of an object that is still being made
            return value
        self._copies[id(value)] = _Copy(value, treedef, taken, copied)
        return copied

    def _changes(self, value: Any) -> bool:
        """Tell whether a pytree, or one of a registered class in it, may change."""
        kind = type(value)
        if kind in _WHOLE:
            return False
        known = _KINDS.get(kind) or _learn(kind, value)
        if known == "whole":
            return False
        if known == "frozen":
            return id(value) not in self._fixed and self._frozen_changes(kind, value)
        if known == "object":
            return True
        return any(map(self._changes, value.values() if known == "dict" else value))

    def _frozen_changes(self, kind: Any, value: Any) -> bool:
        held = _fields(kind, value)
        if _WHOLE.issuperset(map(type, held)):
            self._fixed[id(value)] = value
            return False
        changes = any([self._changes(item) for item in held])
        is_fixed = not changes and not any(
            item is _MISSING or type(item) in (list, dict) for item in held
        )
        if is_fixed:
            self._fixed[id(value)] = value
        return changes


def _is_made_alike(known: _Copy, treedef: Any, parts: list[Any]) -> bool:
    """Tell whether an object is still what it was when it was copied."""
    try:
        return _are_same(known.parts, parts) and bool(known.treedef == treedef)
    except Exception:  # metadata of the user's that cannot be compared
        return False


def _are_same(first: Collection[Any], second: Collection[Any]) -> bool:
    if len(first) != len(second):
        return False
    return all(map(operator.is_, first, second)) or all(map(_is_same, first, second))


def _is_same(first: Any, second: Any) -> bool:
    """Tell whether copies are one object, or containers of such."""
    if first is second:
        return True
    kind = type(first)
    if kind is not type(second) or kind not in CONTAINERS:
        return False
    if kind is dict:
        return first.keys() == second.keys() and all(
            _is_same(item, second[key]) for key, item in first.items()
        )
    return _are_same(first, second)


def _fields(kind: Any, value: Any) -> list[Any]:
    """Return what an instance itself holds in its fields.

    Of one that is still being made, the class may make a bound method of a function that
    is the field's default; in equinox that holds the instance, and so on without end.
    Classes may have an own `__getattribute__`, which is not run either.
    """
    slots = _slots(kind)
    found = [_slot(value, slot) for slot in slots.values()]
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:  # it has only slots
        return found
    names = kind.__dataclass_fields__
    return found + [held.get(n, _MISSING) for n in names if n not in slots]


@functools.lru_cache(maxsize=4096)
def _slots(kind: Any) -> dict[str, types.MemberDescriptorType]:
    """Return the fields of a dataclass that are no entries of its instances' dicts."""
    found = {
        n: inspect.getattr_static(kind, n, None) for n in kind.__dataclass_fields__
    }
    is_slot = types.MemberDescriptorType
    return {name: slot for name, slot in found.items() if isinstance(slot, is_slot)}


def _slot(value: Any, slot: types.MemberDescriptorType) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return _MISSING


def _learn(kind: type, value: Any) -> str:
    """Learn once how values of a class may change; "whole" is what is never copied."""
    if len(_KINDS) > _MAX_KINDS:  # classes that are made anew in every run
        _KINDS.clear()
        _KINDS.update({kind: kind.__name__ for kind in CONTAINERS})
        _WHOLE.clear()
    _KINDS[kind] = known = _kind(kind, value)
    if known == "whole" and kind is not object:  # that is what `_MISSING` is
        _WHOLE.add(kind)
    return known


def _kind(kind: type, value: Any) -> str:
    if issubclass(kind, _FIXED) or jax.tree_util.all_leaves([value]):
        return "whole"
    if issubclass(kind, tuple):
        return "tuple"
    return "frozen" if _is_frozen(kind) else "object"


def _is_frozen(kind: type) -> bool:
    """Tell whether a dataclass refuses assignments, by itself or as its base does."""
    settings = getattr(kind, "__dataclass_params__", None)
    code = getattr(kind.__setattr__, "__code__", None)
    if settings is None:
        return False
    return settings.frozen or "FrozenInstanceError" in getattr(code, "co_names", ())


_MISSING = object()  # a field without a value: the object is still being made
_FIXED = (functools.partial, types.NoneType, *jaxapi.FUNCTION_RESULTS)
_KINDS: dict[type, str] = {kind: kind.__name__ for kind in CONTAINERS}
_WHOLE: set[type] = set()
"""The classes among them whose values are never copied: most are looked up here alone."""
_MAX_KINDS = 4096
