"""The table of lowerings, and how they enter it."""

from __future__ import annotations

import dis
import functools
import inspect
import os
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from untrace.recovery.classifying import recorded, write_inside
from untrace.recovery.record import count_as_library, count_as_users

_FOLDER = os.path.dirname(__file__) + os.sep
count_as_library(_FOLDER)
write_inside(_FOLDER)

_SAME = """
to type type_as contiguous float double half bfloat16 int long short bool cpu cuda
requires_grad_
"""
SAME = frozenset(_SAME.split())
"""The functions that return the tensor itself where there is nothing to do."""

_IMPLIED = """
embed_dim_to_check half_to_float inplace is_causal named non_blocking sorted sparse
sparse_grad stable threshold
"""
IMPLIED = frozenset(_IMPLIED.split())
"""Parameters that may be left unread: the values are the same whatever they are."""

Lowering = TypeVar("Lowering", bound=Callable[..., Any])

LOWERINGS: dict[str, Callable[..., Any]] = {}
"""By the name that torch gives the function."""

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""The same lowerings as functions of the generated file, if they are several calls."""

FILLING: dict[str, Callable[..., Any]] = {}
"""Lowerings of functions that only exist in place, which give the new value."""

LAYERS: dict[str, Callable[..., Any]] = {}
"""What layers of torch do, by their `forward`."""

VIEWS: set[str] = set()
"""The functions whose result is a part of what they are given."""


def lowering(*names: str, is_view: bool = False) -> Callable[[Lowering], Lowering]:
    """Enter a lowering that is one call of JAX, which stands where torch was called."""

    def enter(function: Lowering) -> Lowering:
        for name in names or (function.__name__.rstrip("_"),):
            LOWERINGS[name] = function
            if is_view:
                VIEWS.add(name)
        return function

    return enter


def filling(name: str) -> Callable[[Lowering], Lowering]:
    """Enter a lowering of a function that fills the tensor that it is called with."""

    def enter(function: Lowering) -> Lowering:
        FILLING[name] = function
        return function

    return enter


def lowered_function(*names: str) -> Callable[[Lowering], Lowering]:
    """Enter a lowering of several calls.

    Where the user's code calls it, it is a function of the generated file, named alike.
    A layer of torch that calls it is such a function itself.
    """

    def enter(function: Lowering) -> Lowering:
        known = lowering(*names)(function)
        for name in names or (function.__name__.rstrip("_"),):
            FUNCTIONS[name] = as_function(function)
        return known

    return enter


def layer(name: str) -> Callable[[Lowering], Lowering]:
    """Enter what a layer of torch does, which is given the module itself.

    It returns NotImplemented if the functions that the layer calls are to do it.
    """

    def enter(function: Lowering) -> Lowering:
        LAYERS[f"{name}.forward"] = function
        return function

    return enter


def kept(function: Lowering) -> Lowering:
    """Let a lowering be a function of the generated file wherever it is called."""
    count_as_users(function.__code__)
    return recorded(function)


def kept_as(name: str) -> Callable[[Lowering], Lowering]:
    """The same, with a name that is made."""

    def keep(function: Any) -> Any:
        function.__name__ = function.__qualname__ = name
        code = function.__code__
        function.__code__ = code.replace(co_name=name, co_qualname=name)
        return kept(function)

    return keep


@functools.cache
def _unread(function: types.FunctionType) -> Mapping[str, Any]:
    """Return the parameters that a lowering does not read, and their defaults."""
    read: set[Any] = set()
    for one in dis.get_instructions(function):  # some of Python 3.13 load two variables
        read |= set(one.argval) if isinstance(one.argval, tuple) else {one.argval}
    return {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not parameter.empty
        and not name.startswith("_")
        and name not in read
        and name not in IMPLIED
    }


def reads_all(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> bool:
    """Whether a lowering takes what it is given, and reads all that is no default.

    Anything else is for the operators that torch makes of the call.
    """
    if not isinstance(function, types.FunctionType):  # one of JAX or Python
        return True
    try:
        given = inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError:
        return False
    return all(
        given.get(name, default) is default
        or (isinstance(default, bool | int | float | str) and given[name] == default)
        for name, default in _unread(function).items()
    )


def as_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function with code of its own, which is recorded."""
    made: Any = types.FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return recorded(made)


def sizes(given: Sequence[Any]) -> tuple[int, ...]:
    """The integers of `x.view(2, 3)` and of `x.view((2, 3))`."""
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = given[0]  # type: ignore[reportUnknownVariableType]
    return tuple([int(size) for size in given])


def axes(dim: Any) -> Any:
    """The axes that a `dim` means: all of them for None and an empty list."""
    if isinstance(dim, (tuple, list)):
        return tuple(dim) or None  # type: ignore[reportUnknownArgumentType]
    return dim
