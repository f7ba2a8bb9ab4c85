"""What a frame inside JAX can turn out to be a call of, and with which arguments."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Operator(NamedTuple):
    """A Python operator on arrays, by the name of its method: `__add__`."""

    name: str


class Method(NamedTuple):
    """A method of an array: `x.sum()`."""

    name: str


class Property(NamedTuple):
    """A property of an array: `x.T`."""

    name: str


class Update(NamedTuple):
    """An indexed update: `x.at[i].set(v)`."""

    name: str


class Called(NamedTuple):
    """A function and its actual arguments.

    `is_first` tells that the frame returns the result and more, for the fast path of
    `jax.jit`.
    """

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    is_first: bool = False


Reader = Callable[[types.FrameType], Called | None]


def bound_arguments(
    code: types.CodeType, values: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Split the arguments that a frame starts with into positional and keyword ones."""
    n, n_keyword = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    args = [values[name] for name in names[:n]]
    kwargs = {name: values[name] for name in names[n : n + n_keyword]}
    position = n + n_keyword
    if code.co_flags & inspect.CO_VARARGS:
        args += values[names[position]]
        position += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kwargs.update(values[names[position]])
    return tuple(args), kwargs
