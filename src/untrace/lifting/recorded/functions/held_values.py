"""What a function of the user finds in its object or in its closure: functions, numbers, words.

`Dense(64, act=jax.nn.relu)` and `Dense(10)` run the same code, which calls `self.act`. Where
the runs of a function differ in such values, these are parameters of it, named after the
attributes and variables that hold them: so all runs are of one function.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

from untrace.objects import attributes_of, closed_over
from untrace.recovery.functions import function_key, is_function
from untrace.recovery.record import Body, calls_inside, is_library

Held = tuple[int, str]
"""The code of a function, and an attribute or variable that holds another value there."""


def differing_values(recording: Body) -> dict[Held, bool]:
    """Return what holds one value in some runs of the user's code, and another in others.

    Returns:
      Whether one of them is None, which stands for a function that is left out.
    """
    found: dict[Held, set[Any]] = {}
    called = (item.bodies[0] for item in calls_inside(recording) if item.is_own)
    for run in called:
        for name, value in _held(run).items() if not is_library(run.code) else ():
            found.setdefault((id(run.code), name), set()).add(_mark(value))
    none = _mark(None)
    return {held: none in marks for held, marks in found.items() if len(marks) > 1}


def held_values(run: Body, differing: Mapping[Held, bool]) -> dict[str, Any]:
    """Return what a run may read that other runs of the same code have others of.

    What may be left out comes last.
    """
    if not differing:
        return {}
    code = id(run.code)
    found = [(n, v) for n, v in _held(run).items() if (code, n) in differing]
    return dict(sorted(found, key=lambda pair: differing[code, pair[0]]))


def _held(run: Body) -> Mapping[str, Any]:
    """Return the functions, numbers and texts that a run may read, by their names.

    The values are None where there is none; what is not read is left out, and what two
    objects call alike.
    """
    held = dict(run.free)
    owners = [*run.parameters.values()]
    known = set(map(id, owners))
    for owner in owners:  # which grows: `self.config.name`
        attributes = _attributes(owner)
        for name in run.code.co_names if attributes else ():
            if name in attributes:
                value = attributes[name]
                is_other = held.get(name, value) is not value
                held[name] = _SEVERAL if is_other else value
                owners += [value] if id(value) not in known else []
                known.add(id(value))
    return {name: value for name, value in held.items() if _may_differ(value)}


_SEVERAL = object()
"""In the place of values that have one name."""


def _attributes(owner: Any) -> Mapping[str, Any]:
    """Return what an object holds, such as `self` or the settings of a model."""
    if isinstance(owner, (type, types.ModuleType, types.FunctionType)):
        return {}
    if isinstance(owner, tuple):
        return dict(zip(getattr(owner, "_fields", ()), owner))
    return attributes_of(owner)


def _may_differ(value: Any) -> bool:
    return value is None or type(value) in (*_NUMBERS, str) or is_function(value)


def _mark(value: Any, seen: dict[int, int] | None = None) -> Any:
    """Return what tells values apart.

    Functions that a factory has made several times are one where they hold the same.
    """
    if type(value) in (*_NUMBERS, str, bool):
        return type(value), repr(value)
    if type(value) not in (types.FunctionType, tuple, list):
        return function_key(value)
    seen = {} if seen is None else seen
    if id(value) in seen:  # it may call itself
        return seen[id(value)]
    seen[id(value)] = len(seen)
    if type(value) is not types.FunctionType:
        return type(value), *[_mark(one, seen) for one in value]
    held = [*closed_over(value).values(), *(value.__defaults__ or ())]
    held += (value.__kwdefaults__ or {}).values()
    marks = [_mark(one, seen) for one in held]
    return id(value.__code__), id(value.__globals__), *marks


_NUMBERS = (int, float)
