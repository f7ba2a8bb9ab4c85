"""What a call of a jitted function is compiled for, as values that can be compared.

JAX compiles a function anew whenever one of these is new: the function object, what
`jax.jit` was told, the tree of the arguments, the type and the place of each array,
static arguments, and settings. Arrays are described and not kept.
"""

from __future__ import annotations

import inspect
import os
import types
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from untrace import jaxapi
from untrace.folder import OWN_FOLDER
from untrace.jaxapi import JitCall
from untrace.objects import closed_over
from untrace.printable import printable
from untrace.verification.difference import shorten

MAX_VALUE_COLS = 48
MAX_KEPT_BYTES = 1 << 16
"""Of an array that a function closes over; larger ones are told apart by identity."""

Path = str


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array among the arguments.

    Attributes:
      kind: "a Python number", "a NumPy array", "a JAX array" or "a type".
      aval: Its type.
      sharding: Where it is kept, if it is committed to that; else None.
      layout: How it lies in memory; None if that is not known.
      default_layout: Whether that is how arrays usually lie.
    """

    kind: str
    aval: Any
    sharding: Any
    layout: Any
    default_layout: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """What a call is compiled for.

    Attributes:
      name: Name of the function.
      defined: "file.py:12", where the function is defined; "" if that is not known.
      code: What tells functions apart that are made by different `def`s or lambdas.
      function: Returns the function object, or None if that is gone.
      closed: What the function closes over, by name.
      options: What `jax.jit` was told.
      settings: Settings and contexts.
      trees: The tree of each argument, by its name.
      keywords: The arguments that were passed by keyword.
      leaves: The arrays, by the path to them.
      statics: Static arguments, by name.
      place: Where the call stands.
    """

    name: str
    defined: str
    code: Any
    function: Callable[[], Any]
    closed: Mapping[str, Any]
    options: Mapping[str, Any]
    settings: Mapping[str, Any]
    trees: Mapping[str, Any]
    keywords: frozenset[str]
    leaves: Mapping[Path, Leaf]
    statics: Mapping[str, Any]
    place: str


def facts_of(call: JitCall) -> Facts:
    """Describe a call, under the settings of now."""
    function = _innermost(call.function)
    statics: dict[str, Any] = {}
    leaves: dict[Path, Leaf] = {}
    trees: dict[str, Any] = {}
    names = _argument_names(call)
    numbers = _static_numbers(call.options, len(call.args))
    for number, (name, value) in enumerate(zip(names, call.args)):
        is_static = number in numbers
        _add(name, value, is_static, statics, trees, leaves)
    for name, value in call.kwargs.items():
        is_static = name in (call.options["static_argnames"] or ())
        _add(printable(name), value, is_static, statics, trees, leaves)
    return Facts(
        printable(str(getattr(function, "__name__", type(function).__name__))),
        _defined(function),
        getattr(function, "__code__", type(function)),
        _reference(call.function),
        _closed(call.function),
        call.options,
        jaxapi.trace_settings(),
        trees,
        frozenset(call.kwargs),
        leaves,
        statics,
        printable(call.place),
    )


def _add(
    name: str,
    value: Any,
    is_static: bool,
    statics: dict[str, Any],
    trees: dict[str, Any],
    leaves: dict[Path, Leaf],
) -> None:
    if is_static:
        statics[name] = value
        return
    found, trees[name] = jax.tree_util.tree_flatten_with_path(value)
    for path, leaf in found:
        leaves[name + printable(jax.tree_util.keystr(path))] = _leaf(leaf)


def _leaf(value: Any) -> Leaf:
    try:
        aval = jaxapi.aval_of(value)
    except TypeError:  # JAX says by itself what it cannot take
        return Leaf("no array", type(value), None, None)
    if isinstance(value, jax.Array) and not isinstance(value, jaxapi.Tracer):
        sharding = value.sharding if value.committed else None
        layout = jaxapi.layout_of(value)
        usual = tuple(range(value.ndim))
        order = getattr(layout, "major_to_minor", usual)
        return Leaf("a JAX array", aval, sharding, layout, tuple(order) == usual)
    if isinstance(value, bool | int | float | complex):
        return Leaf("a Python number", aval, None, None)
    is_numpy = isinstance(value, np.ndarray | np.generic)
    return Leaf("a NumPy array" if is_numpy else "a type", aval, None, None)


# ---- functions -----------------------------------------------------------------------


def _innermost(function: Any) -> Any:
    """The function that partial applications and bound methods are of."""
    while True:
        inner = getattr(function, "func", None) or getattr(function, "__func__", None)
        if inner is None:
            return function
        function = inner


def _reference(function: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(function)
    except TypeError:
        return lambda: function


def _defined(function: Any) -> str:
    code = getattr(function, "__code__", None)
    if code is None or code.co_filename.startswith(OWN_FOLDER):
        return ""
    return printable(f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}")


def _closed(function: Any) -> dict[str, Any]:
    """What a function holds beside its code: closure, defaults, partial arguments."""
    held: dict[str, Any] = {}
    while True:
        if isinstance(function, types.MethodType):
            held["self"] = function.__self__
            function = function.__func__
        elif hasattr(function, "func") and hasattr(function, "keywords"):
            held |= {f"partial argument {k}": v for k, v in enumerate(function.args)}
            held |= {printable(k): v for k, v in function.keywords.items()}
            function = function.func
        else:
            break
    held |= closed_over(function)
    defaults = getattr(function, "__defaults__", None) or ()
    held |= {f"default {k}": value for k, value in enumerate(defaults)}
    return {name: snapshot(value) for name, value in held.items()}


class Large(NamedTuple):
    """An array that is too large to be kept: its type, and which one it is."""

    text: str
    number: int


def snapshot(value: Any) -> Any:
    """A value to be compared later: small arrays as what they hold, others as they are."""
    is_array = isinstance(value, np.ndarray | np.generic | jax.Array)
    if not is_array or isinstance(value, jaxapi.Tracer) or jaxapi.is_key(value):
        return value
    is_here = not isinstance(value, jax.Array) or value.is_fully_addressable
    if is_here and value.nbytes <= MAX_KEPT_BYTES:
        return np.array(value)
    return Large(array_text(value), id(value))


def array_text(array: Any) -> str:
    """Write the type of an array."""
    return f"{array.dtype}[{','.join(map(str, array.shape))}]"


def shown(value: Any) -> str:
    """Write a value in a few words."""
    if isinstance(value, np.ndarray):
        if value.ndim == 0:
            return printable(str(value.item()))
        return printable(f"{array_text(value)} {_start(value)}")
    if isinstance(value, Large):
        return printable(value.text)
    if callable(value) and hasattr(value, "__qualname__"):
        return printable(f"`{value.__qualname__}`")
    return printable(shorten(repr(value), MAX_VALUE_COLS))


def _start(array: np.ndarray[Any, Any]) -> str:
    items = ", ".join(str(item) for item in array.reshape(-1)[:3])
    return f"[{items}{', ...' if array.size > 3 else ''}]"


# ---- names of arguments ----------------------------------------------------------------


def _argument_names(call: JitCall) -> list[str]:
    """The names of positional arguments, as the function has them."""
    n = len(call.args)
    try:
        parameters = list(inspect.signature(call.function).parameters.values())
    except (TypeError, ValueError):
        return [f"args[{k}]" for k in range(n)]
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = n - len(names)
            names += [f"{printable(parameter.name)}[{k}]" for k in range(rest)]
            break
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            break
        names.append(printable(parameter.name))
    return [*names[:n], *[f"args[{k}]" for k in range(len(names), n)]]


def _static_numbers(options: Mapping[str, Any], n: int) -> set[int]:
    return {k % n if k < 0 and n else k for k in options["static_argnums"] or ()}
