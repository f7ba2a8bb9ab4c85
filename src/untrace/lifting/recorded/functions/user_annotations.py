"""The annotations that the user wrote, where a file can have them.

    def step(state: State, x: jax.Array, rate: float = 0.1) -> tuple[State, jax.Array]:

Kept is what needs no other names than the file has (builtins, `jax.Array`, classes that it
defines or imports), and what was true in the recorded run: a parameter may hold less than
it did, as may the result.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.typing

from untrace.lifting.recorded.naming.values import is_array, type_of
from untrace.recovery.functions import innermost
from untrace.recovery.record import Body, is_library

_NUMBERS = (bool, int, float, complex)
_CONTAINERS = (tuple, list, dict)


@dataclass(frozen=True, slots=True)
class FileNames:
    """How a file names things.

    Attributes:
      home: Names a public function or class, by its module and name.
      imported: Imports a name from a module.
      class_of: Names the class of a value, if the file has it; "" if not.
    """

    home: Callable[[tuple[str, str]], str]
    imported: Callable[[str, str], str]
    class_of: Callable[[Any], str]


def annotations_of(run: Body) -> Mapping[str, Any]:
    """Return the annotations of the user's function that ran, by its parameters.

    Those in quotes are evaluated as `typing.get_type_hints` does; if one of them cannot
    be, there are none.
    """
    function = innermost(run.function) if run.function is not None else run.defined
    if function is None or is_library(run.code) or function.__code__ is not run.code:
        return {}
    try:
        return inspect.get_annotations(function, eval_str=True)
    except Exception:  # whatever the user's names are
        return {}


def user_annotation(annotation: Any, value: Any, names: FileNames) -> str:
    """Write an annotation as a value allows it; "" if it cannot be written, or is not so."""
    if annotation in (None, types.NoneType):
        return "None" if value is None else ""
    if annotation is Any:
        return names.imported("typing", "Any")
    if annotation is jax.Array:
        return names.home(("jax", "Array")) if is_array(value) else ""
    if annotation == jax.typing.ArrayLike:
        return names.home(("jax.typing", "ArrayLike"))
    if annotation in _NUMBERS:
        is_number = type(value) in _NUMBERS
        is_scalar = is_number or (is_array(value) and type_of(value).shape == ())
        return annotation.__name__ if is_scalar else ""
    if annotation in _CONTAINERS:
        return annotation.__name__ if type(value) is annotation else ""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return _union(parts, value, names)
    if origin in _CONTAINERS and type(value) is origin:
        return _container(origin, parts, value, names)
    return names.class_of(value) if type(value) is annotation else ""


def dimension_names(annotation: Any, n_axes: int) -> str:
    """Return the names of dimensions that an annotation of jaxtyping gives; "" if none."""
    names = getattr(annotation, "dim_str", "")
    if not isinstance(names, str) or not names.isprintable():
        return ""
    words = names.split()
    is_open = any("..." in word or "*" in word for word in words)
    return " ".join(words) if is_open or len(words) == n_axes else ""


def _union(parts: Sequence[Any], value: Any, names: FileNames) -> str:
    """Write a union whose other parts are not what the value is, but can be written."""
    texts = [user_annotation(part, value, names) for part in parts]
    plain: dict[Any, str] = {kind: kind.__name__ for kind in _NUMBERS}
    plain[types.NoneType] = "None"
    plain[jax.Array] = names.home(("jax", "Array"))
    written = [text or plain.get(part, "") for text, part in zip(texts, parts)]
    return " | ".join(written) if any(texts) and all(written) else ""


def _container(kind: Any, parts: Sequence[Any], value: Any, names: FileNames) -> str:
    if kind is tuple and not (len(parts) == 2 and parts[1] is Ellipsis):
        if len(parts) != len(value):
            return ""
        texts = [user_annotation(p, v, names) for p, v in zip(parts, value)]
        return f"tuple[{', '.join(texts)}]" if texts and all(texts) else ""
    if not value or (kind is dict and parts[0] is not str):
        return ""
    items = list(value.values()) if kind is dict else list(value)
    found = {user_annotation(parts[kind is dict], item, names) for item in items}
    item = found.pop() if len(found) == 1 else ""
    first, last = ("str, ", "") if kind is dict else ("", ", ..." * (kind is tuple))
    return f"{kind.__name__}[{first}{item}{last}]" if item else ""
