"""What an object holds besides its arrays, as its constructor is told it.

Static fields of dataclasses (`jax.tree_util.register_dataclass`, flax.struct,
equinox) are no children in a pytree, and an object is not made again without them. Read
are attributes that are called like parameters of the class and hold what a file can
say: numbers, words, and what is imported by its name.
"""

from __future__ import annotations

import enum
import functools
import inspect
import types
from collections.abc import Container, Mapping
from typing import Any

import numpy as np

from untrace.syntax.importable import is_importable


def static_fields(value: Any, given: Container[str]) -> dict[str, Any]:
    """Return the keyword arguments that make `value`, besides those that are given.

    Those that are the parameters' defaults are left out; nothing if one cannot be said.
    """
    found: dict[str, Any] = {}
    for name, parameter in _parameters(type(value)).items():
        if name in given or parameter.kind is parameter.POSITIONAL_ONLY:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        held = _attribute(value, name)
        default = parameter.default
        is_default = type(held) is type(default) and (
            held is default or (_is_plain(held) and held == default)
        )
        if is_default:
            continue
        if not _is_plain(held):
            return {}
        found[name] = held
    return found


@functools.lru_cache(maxsize=1024)
def _parameters(cls: Any) -> Mapping[str, inspect.Parameter]:
    """The parameters of a class: trees hold many objects of few classes."""
    try:
        return inspect.signature(cls).parameters
    except (TypeError, ValueError):  # there is none, or the class makes it up
        return {}


_MISSING = object()


def _attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, _MISSING)
    except Exception:  # a property may raise anything
        return _MISSING


def _is_plain(held: Any) -> bool:
    """Whether a file can say what is held, so that it is equal where that is read."""
    kind = type(held)
    if kind is tuple:
        return all(map(_is_plain, held))
    if held is None or kind in (bool, int, str, bytes):
        return True
    if kind in (float, complex):
        return held == held  # NaN is another one in every tree
    if isinstance(held, np.dtype):
        return held.isbuiltin == 1
    return is_named(held)


def is_named(held: Any) -> bool:
    """Whether what is held is, or has in it, what a file imports by its name.

    That is a function, a class, or a member of an enum.
    """
    if type(held) is tuple:
        return any(map(is_named, held))
    if isinstance(held, enum.Enum):
        return is_importable(type(held))
    is_known = isinstance(held, _NAMED) or _is_jax_function(held)
    return is_known and is_importable(held)


_NAMED = (type, types.FunctionType, types.BuiltinFunctionType)


def _is_jax_function(held: Any) -> bool:
    """Whether a value is a function to JAX's users, such as `jnp.tanh`."""
    home = str(getattr(type(held), "__module__", "")).partition(".")[0]
    return callable(held) and home in ("jax", "jaxlib")
