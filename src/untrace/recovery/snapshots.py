"""Copy what a program may change in place, as it is at this moment.

Lists and dicts may change, and so may pytrees of registered classes; tuples and frozen
dataclasses only if they hold such. Everything else is kept as it is, but for the pairs
that JAX gives to some derivative rules: a value, and whether it is perturbed.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import types
from collections.abc import Collection
from typing import Any, NamedTuple

import jax

from untrace import jaxapi
from untrace.recovery import contents

CONTAINERS = frozenset({tuple, list, dict})


class _Copy(NamedTuple):
    """A copy of an object.

    Attributes:
      value: The object, which is kept alive so that its `id` stays its own.
      treedef: How JAX puts it together again.
      parts: Copies of the parts that it consisted of.
      copied: The copy.
      look: Shows whether it or a part of it has changed; None if none can.
    """

    value: Any
    treedef: Any
    parts: list[Any]
    copied: Any
    look: contents.Look | None


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
            return {key: self.take(item) for key, item in value.copy().items()}
        if known == "list":
            if _WHOLE.issuperset(map(type, value)):
                return value.copy()
            # Code of a class that copies itself may note in the list that it did.
            return [self.take(item) for item in value.copy()]
        if kind is tuple:
            if _WHOLE.issuperset(map(type, value)):
                return value
            return tuple([self.take(item) for item in value])
        if known == "primal":
            return value.value  # what there is besides is asked while it is traced
        if known == "object" or self._changes(value):
            return self._copied(value)
        return value

    def _copied(self, value: Any) -> Any:
        """Copy a pytree of a registered class: take it apart, put it together again.

        One that has not changed since it was copied has one copy.
        """
        known = self._copies.get(id(value))
        try:
            look = None if known is None else known.look
            if known is not None and look is not None and look.finds_the_same():
                return known.copied  # it was not taken apart, which takes longer
            # Code of the class runs here; what it asks of JAX must not enter the trace.
            with jaxapi.outside_traces():
                parts, treedef = jax.tree.flatten(value, lambda p: p is not value)
                taken = list(map(self.take, parts))
                if known is not None and _is_made_alike(known, treedef, taken):
                    return known.copied
                copied = jax.tree.unflatten(treedef, taken)
        except Exception:  # such as that of an object that is still being made
            return value
        look = self._look(value, parts)
        self._copies[id(value)] = _Copy(value, treedef, taken, copied, look)
        return copied

    def _look(self, value: Any, parts: list[Any]) -> contents.Look | None:
        """Return what shows whether an object, or a part of it, has changed."""
        is_tuple = issubclass(type(value), tuple)
        own = None if is_tuple else contents.attributes(value)
        if own is None and not is_tuple:
            return None
        found: list[contents.Reading] = [own] if own else []
        held: list[Any] = list(own.found if own else tuple.__iter__(value))
        seen = {id(value)}
        for item in held:  # which grows
            kind = type(item)
            if kind in _WHOLE or id(item) in self._fixed or id(item) in seen:
                continue
            seen.add(id(item))
            if kind is dict or kind is list:
                found += contents.items(item)
                held += found[-1].found
            elif issubclass(kind, tuple):
                held.extend(
                    tuple.__iter__(item)
                )  # its class may add in a way of its own
            elif (_KINDS.get(kind) or _learn(kind, item)) != "whole":
                known = self._copies.get(id(item))
                if known is not None and known.look is not None:
                    found += known.look.readings
                elif known is not None or _has_leaves(item):
                    return None
            if len(held) > _MAX_HELD:
                return None
        if not {*map(id, held)}.issuperset(map(id, parts)):
            return None  # it makes them of something else
        return contents.Look(found)

    def _changes(self, value: Any) -> bool:
        """Whether a pytree, or one of a registered class in it, may change."""
        kind = type(value)
        if kind in _WHOLE:
            return False
        known = _KINDS.get(kind) or _learn(kind, value)
        if known == "whole":
            return False
        if known == "frozen":
            return id(value) not in self._fixed and self._frozen_changes(kind, value)
        if known == "tuple":
            return any(map(self._changes, value))
        return known == "object" or bool(value)  # what a list or dict holds may change

    def _frozen_changes(self, kind: Any, value: Any) -> bool:
        held = contents.fields(kind, value)
        if _WHOLE.issuperset(map(type, held)):
            self._fixed[id(value)] = value
            return False
        changes = any([self._changes(item) for item in held])
        is_fixed = not changes and not any(
            item is contents.MISSING or type(item) in (list, dict) for item in held
        )
        if is_fixed:
            self._fixed[id(value)] = value
        return changes


def _has_leaves(value: Any) -> bool:
    """Whether a pytree that was not copied, such as metadata, may hold anything."""
    try:
        with jaxapi.outside_traces():
            return bool(jax.tree.leaves(value))
    except Exception:  # as above
        return True


def _is_made_alike(known: _Copy, treedef: Any, parts: list[Any]) -> bool:
    """Whether an object is still what it was when it was copied."""
    try:
        return _are_same(known.parts, parts) and bool(known.treedef == treedef)
    except Exception:  # metadata of the user's that cannot be compared
        return False


def _are_same(first: Collection[Any], second: Collection[Any]) -> bool:
    if len(first) != len(second):
        return False
    return all(map(operator.is_, first, second)) or all(map(is_copy, first, second))


def is_copy(first: Any, second: Any) -> bool:
    """Whether two values are one object, or containers of the same objects."""
    if first is second:
        return True
    kind = type(first)
    if kind is not type(second) or kind not in CONTAINERS:
        return False
    if kind is dict:
        return first.keys() == second.keys() and all(
            is_copy(item, second[key]) for key, item in first.items()
        )
    return _are_same(first, second)


def _learn(kind: type, value: Any) -> str:
    """Learn once how values of a class may change; "whole" is what is never copied."""
    if len(_KINDS) > _MAX_KINDS:  # classes that are made anew in every run
        _KINDS.clear()
        _KINDS.update({kind: kind.__name__ for kind in CONTAINERS})
        _WHOLE.clear()
    _KINDS[kind] = known = _kind(kind, value)
    if known == "whole" and kind is not object:  # that is what `MISSING` is
        _WHOLE.add(kind)
    return known


def _kind(kind: type, value: Any) -> str:
    if issubclass(kind, jax.custom_derivatives.CustomVJPPrimal):
        return "primal"
    if issubclass(kind, _FIXED) or jax.tree_util.all_leaves([value]):
        return "whole"
    if issubclass(kind, tuple):
        return "tuple"
    return "frozen" if _is_frozen(kind) else "object"


def _is_frozen(kind: type) -> bool:
    """Whether a dataclass refuses all assignments once its objects are made.

    That is what the `__setattr__` that `dataclasses` generates does, and that of equinox;
    one of another library may let some pass (those of `jax_dataclasses` do, in a `with`).
    """
    if not dataclasses.is_dataclass(kind):
        return False
    setter: Any = kind.__setattr__
    code = getattr(setter, "__code__", None)
    is_generated = "FrozenInstanceError" in getattr(code, "co_freevars", ())
    module = getattr(setter, "__module__", None) or ""  # that of `object` has none
    return is_generated or module.partition(".")[0] == "equinox"


_FIXED = (functools.partial, types.NoneType, *jaxapi.FUNCTION_RESULTS)
_KINDS: dict[type, str] = {kind: kind.__name__ for kind in CONTAINERS}
_WHOLE: set[type] = set()
"""The classes among them whose values are never copied: most are looked up here alone."""
_MAX_KINDS = 4096
_MAX_HELD = 10_000
"""Items that are looked at one by one: lists in the metadata of an object may be long."""
