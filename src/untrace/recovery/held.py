"""What a frame holds that a recording is to keep, and whether a value holds arrays."""

from __future__ import annotations

import types
from collections.abc import Iterator, ValuesView
from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.recovery.record import is_library
from untrace.recovery.snapshots import CONTAINERS, Snapshots

_NO_ARRAYS = (
    bool,
    int,
    float,
    str,
    bytes,
    type,
    type(None),
    types.FunctionType,
    types.ModuleType,
)
_PLAIN = frozenset({bool, int, float, str, type, type(None), types.FunctionType})


def parameters(
    frame: types.FrameType, names: tuple[str, ...], snapshots: Snapshots
) -> dict[str, Any]:
    """Return what the parameters of a frame that begins hold."""
    if not names:
        return {}
    # Each look-up in `f_locals` would search all names; `items` goes over them once.
    values = dict(frame.f_locals.items())
    return {n: snapshots.take(values[n]) for n in names if n in values}


def variables(
    frame: types.FrameType, snapshots: Snapshots | None
) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the local variables of a frame that ends: those that may hold arrays, integers.

    Args:
      snapshots: Copies what they hold; None if that is kept as it is.
    """
    arrays: dict[str, Any] = {}
    integers: dict[str, int] = {}
    for name, value in frame.f_locals.items():
        if name[:1] in "_.":
            continue
        kind = type(value)
        if kind is int:
            integers[name] = value
        elif kind not in _PLAIN and not isinstance(value, _NO_ARRAYS):
            arrays[name] = value if snapshots is None else snapshots.take(value)
    return arrays, integers


def free(frame: types.FrameType) -> dict[str, Any]:
    """Return what the variables hold that a frame closes over."""
    names = frame.f_code.co_freevars
    if not names:
        return {}
    values = frame.f_locals
    return {name: values[name] for name in names if name in values}


def wrapped(frame: types.FrameType) -> types.FunctionType | None:
    """Return the only function in the closure of a library's frame."""
    code = frame.f_code
    if not code.co_freevars or not is_library(code):
        return None
    values = frame.f_locals
    held = [values.get(name) for name in code.co_freevars]
    functions = [value for value in held if isinstance(value, types.FunctionType)]
    return functions[0] if len(functions) == 1 else None


def has_array(value: Any) -> bool:
    """Whether a value is an array or tracer, or a tree that holds one."""
    kind = type(value)
    if kind in _PLAIN:
        return False
    if kind in CONTAINERS:  # the keys of a dict need no order, but JAX would sort them
        return any(map(has_array, value.values() if kind is dict else value))
    if isinstance(value, _NO_ARRAYS) or _is_plain_iterator(value):
        return False
    try:
        with jaxapi.outside_traces():  # as in snapshots
            leaves = jax.tree.leaves(value)
    except Exception:  # such as those of an object that is still being made
        return False
    return any(isinstance(leaf, (jaxapi.Tracer, np.ndarray)) for leaf in leaves)


def _is_plain_iterator(value: Any) -> bool:
    """Whether a value is a generator, `zip` or the like; JAX warns about these."""
    is_plain = type(value).__module__ == "builtins"
    return is_plain and isinstance(value, (Iterator, ValuesView))
