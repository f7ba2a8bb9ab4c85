"""Which names of the caller's source hold the numbers and arrays a call was given.

The position of the call's instruction says which other instructions belong to the same
expression. What those load is looked up in the caller's frame, so a name is only found
if it holds the very number, and it is only used if no other name there does.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.recovery import bytecode
from untrace.recovery.array_parts import part_names
from untrace.recovery.constant_variables import is_constant_variable
from untrace.recovery.expressions import static_attribute
from untrace.recovery.targets import loop_variables

NumberKey = tuple[type, str]
MIN_INTEGER = 1000
"""Smaller integers are axes and sizes, which read best as they are."""
MAX_LISTED = 16
MAX_NESTED = 3
"""Lists of more items, or in so many others, hold data, in which no number has a name."""
_NO_ARRAYS = frozenset({bool, int, float, str, tuple, list, dict, type(None)})
_FLOATS = frozenset({float, np.float64})
_NUMBERS = frozenset({int, *_FLOATS})
_DTYPES = frozenset(type(np.dtype(kind)) for kind in "?bhilBHILefdFD")
_SAY_NOTHING: set[type] = {bool, str, type, type(None), types.FunctionType}
"""Classes whose values are neither numbers nor constant arrays, and hold none."""
NO_NUMBERS: frozenset[NumberKey] = frozenset()
_PLAIN = frozenset({"0.0", "0.5", "1.0", "2.0"} | {repr(math.pi), repr(2 * math.pi)})


def number_key(value: Any) -> NumberKey | None:
    """Return what identifies a number that may have a name; None for all else.

    The sign of a zero and a NaN count, as does the type.
    """
    kind = type(value)
    if kind in _FLOATS or (kind is int and abs(value) >= MIN_INTEGER):
        return kind, repr(value)
    return None


def is_plain_number(key: NumberKey) -> bool:
    """Whether a number reads better than any name for it."""
    return key[1].lstrip("-") in _PLAIN


def say_nothing(values: Iterable[Any], site: bytecode.Site) -> bool:
    """Whether a call was given nothing whose name would be found here.

    Those are traced arrays, functions, flags and words: which variables hold these is known
    otherwise, or does not matter. One number that stands in the source has no name.
    """
    others = [value for value in values if type(value) not in _SAY_NOTHING]
    if len(others) == 1 and type(others[0]) in _NUMBERS:
        return (type(others[0]), others[0]) in site.literals
    return all(map(_says_nothing, others))


def _says_nothing(value: Any) -> bool:
    kind = type(value)
    if kind in _SAY_NOTHING:
        return True
    if issubclass(kind, jaxapi.Tracer) and not issubclass(kind, tuple):
        _SAY_NOTHING.add(kind)
    return kind in _SAY_NOTHING


def number_names(
    frame: types.FrameType, values: Iterable[Any], flat: Sequence[Any]
) -> dict[NumberKey, set[bytecode.Chain]]:
    """Return what the calling expression loads that holds the numbers given.

    Args:
      frame: The caller's, which is at the call.
      values: What the call was given.
      flat: The same with the parts of indices, which a loop's variable may be.
    """
    if not any(type(value) in _NUMBERS for value in flat):
        return {}
    turning = loop_variables(frame.f_code)
    numbers = [v for v in flat if type(v) in _FLOATS]
    numbers += [v for v in (flat if turning else values) if type(v) is int]
    given = {k for v in numbers if (k := _key(v, bool(turning))) is not None}
    names: dict[NumberKey, set[bytecode.Chain]] = {key: set() for key in given}
    if not given:
        return names
    for chain in bytecode.loads(frame.f_code, frame.f_lasti):
        is_turning = chain.path[0] in turning
        key = _key(_held(frame, chain), is_turning)
        if key not in names:
            continue
        if key[0] in _FLOATS or chain.is_global or is_turning:
            names[key].add(chain)
    return names


def only_names(
    names: Mapping[NumberKey, Set[bytecode.Chain]],
) -> tuple[tuple[NumberKey, str], ...]:
    """Return the numbers that have one name."""
    words = {key: {c.path[-1] for c in found} for key, found in names.items()}
    return tuple([(key, min(found)) for key, found in words.items() if len(found) == 1])


def module_names(names: Mapping[NumberKey, Set[bytecode.Chain]]) -> frozenset[str]:
    """Return the variables of the module among the names of numbers."""
    chains = [chain for found in names.values() for chain in found]
    return frozenset(c.path[0] for c in chains if c.is_global and len(c.path) == 1)


def held_numbers(
    frame: types.FrameType, names: Mapping[NumberKey, Set[bytecode.Chain]]
) -> frozenset[NumberKey]:
    """Return the numbers that a variable holds which a parameter may have given to it.

    Constants that stand in the source are not such, nor are global ones.
    """
    return frozenset(
        key
        for key, found in names.items()
        if any(_may_be_given(frame, chain) for chain in found)
    )


def written_numbers(
    names: Mapping[NumberKey, Set[bytecode.Chain]], site: bytecode.Site
) -> frozenset[NumberKey]:
    """Return the numbers that no variable of an expression holds, and that stand there.

    The compiler makes one object of those of a module that are alike, such as a default.
    """
    written = {number_key(value) for _, value in site.literals}
    return frozenset(
        key for key, found in names.items() if not found and key in written
    )


def _may_be_given(frame: types.FrameType, chain: bytecode.Chain) -> bool:
    is_constant = _is_local(chain) and is_constant_variable(frame, chain.path[0])
    return not chain.is_global and not is_constant


def _key(value: Any, is_turning: bool) -> NumberKey | None:
    """Return what identifies a number; a small one, if it is a loop's."""
    if is_turning and type(value) is int:
        return int, repr(value)
    return number_key(value)


def is_shape(value: list[Any]) -> bool:
    """Whether a list is of integers alone."""
    return all(type(one) is int for one in value)


def flattened(
    values: Iterable[Any],
    has_integers: Callable[[list[Any]], bool] = is_shape,
    depth: int = 0,
) -> list[Any]:
    """List what a call was given, with the parts of indices and the numbers of short lists.

    Args:
      values: What it was given.
      has_integers: Whether the integers of a list count.
      depth: How many lists there are around.
    """
    found: list[Any] = []
    for value in values:
        kind = type(value)
        if kind is tuple:
            found += flattened(value, has_integers, depth)
        elif kind is slice:
            found += value.start, value.stop, value.step
        elif kind is list and len(value) <= MAX_LISTED and depth <= MAX_NESTED:
            listed = flattened(value, has_integers, depth + 1)
            wanted = _NUMBERS if has_integers(value) else _FLOATS
            found += [value, *(v for v in listed if type(v) in wanted)]
        else:
            found.append(value)
    return found


def named_arrays(
    frame: types.FrameType,
    values: Sequence[Any],
    parameters: Mapping[str, Any],
) -> tuple[tuple[int, str], ...]:
    """Return the names that the calling expression has for constant arrays given.

    Those that it makes are called after what they are parts of, else after the parameter
    that takes them.

    Args:
      frame: The caller's, which is at the call.
      values: What the call was given, with the parts of indices.
      parameters: Those of the user's function that is called, with what they are given.

    Returns:
      The identity of each array, and its name.
    """
    listed = [w for v in values if type(v) is list for w in v]
    found = [v for v in (*values, *listed) if _is_constant(v)]
    given = {id(v): v for v in found}
    if not given:
        return ()
    chains = bytecode.loads(frame.f_code, frame.f_lasti)
    held = [(id(_held(frame, chain)), chain.path[-1]) for chain in chains]
    names = [(key, name) for key, name in held if key in given]
    named = {key for key, _ in names}
    others = [v for key, v in given.items() if key not in named]
    computed = [one.path[-1] for one in chains if _is_property(_held(frame, one))]
    if len(others) == len(computed) == 1:  # which makes it anew each time
        names.append((id(others[0]), computed[0]))
    elif others:
        names += part_names(frame, others) or [
            (id(v), name) for name, v in parameters.items() if _is_one_of(v, others)
        ]
    return tuple(names)


def _is_property(held: Any) -> bool:
    return isinstance(held, (property, functools.cached_property))


def _is_one_of(value: Any, others: Iterable[Any]) -> bool:
    return any(value is other for other in others)


def named_containers(
    frame: types.FrameType, values: Iterable[Any]
) -> list[tuple[str, Any]]:
    """Return the local variables in the calling expression that hold containers.

    Those are tuples, lists, dicts and dataclasses, as they are at the call.

    Args:
      frame: The caller's, which is at the call.
      values: What the call was given.
    """
    is_starred = bytecode.site(frame.f_code, frame.f_lasti).is_starred
    if not is_starred and not any(map(_is_container, values)):
        return []
    chains = bytecode.loads(frame.f_code, frame.f_lasti)
    names = dict.fromkeys(c.path[0] for c in chains if _is_local(c))
    held = frame.f_locals
    return [(n, held[n]) for n in names if n in held and _is_container(held[n])]


def shaped_arrays(
    frame: types.FrameType, values: Iterable[Any]
) -> tuple[tuple[str, Any], ...]:
    """Return the arrays in local variables whose `.shape` or `.dtype` is passed.

    Args:
      frame: The caller's, which is at the call.
      values: What the call was given.
    """
    given = [value for value in values if _is_shape(value) or type(value) in _DTYPES]
    if not given:
        return ()
    found: list[tuple[str, Any]] = []
    for chain in bytecode.loads(frame.f_code, frame.f_lasti):
        owner, *path = chain.path
        if chain.is_global or path not in (["shape"], ["dtype"]):
            continue
        array = array_of(frame.f_locals.get(owner))
        if array is not None and getattr(array, path[0]) in given:
            found.append((path[0], array))
    return tuple(found)


def _is_shape(value: Any) -> bool:
    is_tuple = type(value) is tuple and bool(value)
    return is_tuple and all(type(size) is int for size in value)


def is_any_array(value: Any) -> bool:
    """Whether a value is an array of any kind, traced or not."""
    return isinstance(value, jaxapi.Tracer) or _is_constant(value)


def array_of(value: Any) -> Any:
    """Return a value if it is an array, or the array that it stands for, or None."""
    if is_any_array(value):
        return value
    read = _STANDING.get(type(value))
    return read(value) if read is not None else None


def stand_for_arrays(kind: type, read: Callable[[Any], Any]) -> None:
    """Let objects of a class stand for the arrays that are read from them."""
    _STANDING[kind] = read


_STANDING: dict[type, Callable[[Any], Any]] = {}


def _is_local(chain: bytecode.Chain) -> bool:
    return len(chain.path) == 1 and not chain.is_global


def _is_container(value: Any) -> bool:
    kind = type(value)
    return issubclass(kind, (tuple, dict, list)) or hasattr(
        kind, "__dataclass_fields__"
    )


def _is_constant(value: Any) -> bool:
    return type(value) not in _NO_ARRAYS and _is_array_class(type(value))


@functools.lru_cache(maxsize=4096)
def _is_array_class(kind: type) -> bool:
    """Whether a class is one of constant arrays; to ask JAX takes long."""
    is_tracer = issubclass(kind, jaxapi.Tracer)
    return not is_tracer and issubclass(kind, (np.ndarray, jax.Array))


def _held(frame: types.FrameType, chain: bytecode.Chain) -> Any:
    """Return what a name and its attributes hold, without running any code."""
    first, *rest = chain.path
    value = (frame.f_globals if chain.is_global else frame.f_locals).get(first)
    for name in rest:
        if type(value) is types.ModuleType:
            value = vars(value).get(name)
        else:
            value = static_attribute(value, name)
    return value
