"""Copy what a program may change in place, as it is at this moment.

Lists and dicts may change, and so may pytrees of registered classes; tuples and frozen
dataclasses only if they hold such. Everything else is kept as it is.
"""

from __future__ import annotations

import functools
import inspect
import types
from typing import Any

import jax

from untrace import jaxapi

CONTAINERS = frozenset({tuple, list, dict})


class Snapshots:
    """Copies values, and remembers the frozen ones that hold nothing that may change."""

    def __init__(self) -> None:
        self._fixed: dict[int, Any] = {}  # kept alive, so that each `id` stays its own

    def take(self, value: Any) -> Any:
        """Copy the containers that a program may change in place."""
        kind = type(value)
        known = _KINDS.get(kind) or _learn(kind, value)
        if known == "whole":
            return value
        if known == "dict":
            return {key: self.take(item) for key, item in value.items()}
        if known == "list":
            return [self.take(item) for item in value]
        if kind is tuple:
            return tuple([self.take(item) for item in value])
        return self._copied(value) if self._changes(value) else value

    def _copied(self, value: Any) -> Any:
        """Copy a pytree of a registered class: take it apart, put it together again."""
        try:
            parts, treedef = jax.tree.flatten(value, is_leaf=lambda p: p is not value)
            return jax.tree.unflatten(treedef, [self.take(part) for part in parts])
        except Exception:  # such as that of an object that is still being made
            return value

    def _changes(self, value: Any) -> bool:
        """Tell whether a pytree, or one of a registered class in it, may change."""
        kind = type(value)
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
        changes = any([self._changes(item) for item in held])
        is_fixed = not changes and not any(
            item is _MISSING or type(item) in (list, dict) for item in held
        )
        if is_fixed:
            self._fixed[id(value)] = value
        return changes


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
    _KINDS[kind] = known = _kind(kind, value)
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
_MAX_KINDS = 4096
