"""Write objects that their class rebuilds from fields, and objects known by name.

A record is an instance of an importable class whose constructor takes its attributes:
named tuples, dataclasses, and many of JAX's own classes. The text is accepted only if
calling the constructor now gives an equal object.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from untrace import jaxapi
from untrace.jaxapi import written
from untrace.lifting.spelling.base import (
    FALLBACKS,
    Speller,
    Unspellable,
    Writer,
    writes,
)
from untrace.lifting.spelling.homes import find_home, find_public_home
from untrace.objects import attributes_of, closed_over
from untrace.syntax.names import is_name

Arguments = tuple[list[Any], dict[str, Any]]
"""Positional and keyword arguments of a constructor."""

_EMPTY = inspect.Parameter.empty


def spell_reference(speller: Speller, value: Any) -> str:
    """Write the imported name of `value`.

    Raises:
      Unspellable: If no importable module has it under any name.
    """
    home = find_home(value)
    if home is None:
        name = getattr(value, "__qualname__", type(value).__qualname__)
        raise Unspellable(value, f"`{name}` cannot be imported by name")
    return spell_home(speller, *home)


def spell_home(speller: Speller, module: str, qualname: str) -> str:
    """Write an attribute of a module; builtins need no import."""
    return qualname if module == "builtins" else speller.name(module, qualname)


def _is_equal(made: Any, value: Any) -> bool:
    return bool(made == value)


def _has_same_state(made: Any, value: Any) -> bool:
    """Compare the attributes of objects whose class compares by identity."""
    if type(value).__eq__ is not object.__eq__:
        return False
    state = attributes_of(value)
    return bool(state) and state == attributes_of(made)


def spell_record(
    speller: Speller, value: Any, is_same: Callable[[Any, Any], bool] = _is_equal
) -> str:
    """Write a call of the value's class on its attributes.

    Raises:
      Unspellable: If that does not give the same object, in the sense of `is_same`.
    """
    return spell_rebuilt(speller, value, *read_arguments(value), is_same)


def spell_rebuilt(
    speller: Speller,
    value: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    is_same: Callable[[Any, Any], bool] = _is_equal,
) -> str:
    """Write a call of the value's class on these arguments.

    Raises:
      Unspellable: If that does not give the same object, in the sense of `is_same`.
    """
    try:
        is_rebuilt = is_same(type(value)(*args, **kwargs), value)
    except (TypeError, ValueError, AttributeError, AssertionError) as error:
        raise Unspellable(value, f"its class does not rebuild it: {error}") from error
    if not is_rebuilt:
        raise Unspellable(value, "its class makes another object from its attributes")
    return speller.call(spell_reference(speller, type(value)), args, **kwargs)


def read_arguments(value: Any) -> Arguments:
    """Read the constructor's arguments back from the attributes of `value`.

    Raises:
      Unspellable: If a parameter has no attribute.
    """
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter in _parameters(value):
        held = _read_attribute(value, parameter.name)
        if parameter.kind is parameter.VAR_POSITIONAL:
            args += held
        elif parameter.kind is parameter.VAR_KEYWORD:
            kwargs.update(held)
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            args.append(held)
        elif not _is_default(held, parameter.default):
            kwargs[parameter.name] = held
    return args, kwargs


def _parameters(value: Any) -> list[inspect.Parameter]:
    try:
        found = list(inspect.signature(value.__class__).parameters.values())
    except (TypeError, ValueError) as error:
        raise Unspellable(value, "its class has no readable constructor") from error
    if any(p.kind is p.VAR_POSITIONAL for p in found):
        positional = inspect.Parameter.POSITIONAL_ONLY
        found = [
            p.replace(kind=positional) if p.kind is p.POSITIONAL_OR_KEYWORD else p
            for p in found
        ]
    return found


def _read_attribute(value: Any, name: str) -> Any:
    for attribute in (name, f"_{name}"):
        try:
            return getattr(value, attribute)
        except AttributeError:
            continue
    raise Unspellable(value, f"its constructor's `{name}` cannot be read back")


def _is_default(held: Any, default: Any) -> bool:
    if default is _EMPTY:
        return False
    if held is default:
        return True
    return type(held) is type(default) and repr(held) == repr(default)


def _spell_object(speller: Speller, value: Any) -> str:
    home = find_public_home(value)
    if home is not None:
        return spell_home(speller, *home)
    try:
        return spell_record(speller, value)
    except Unspellable:
        found = find_home(value)
        if found is not None:
            return spell_home(speller, *found)
    return spell_record(speller, value, is_same=_has_same_state)


@writes(
    type,
    types.BuiltinFunctionType,
    types.ModuleType,
    types.MethodDescriptorType,
    np.ufunc,
    memo=True,
)
def _spell_named(speller: Speller, value: Any) -> str:
    if isinstance(value, types.ModuleType):
        return speller.imports.module(value.__name__)
    return spell_reference(speller, value)


@writes(types.FunctionType, memo=True)
def _spell_function(speller: Speller, value: Any) -> str:
    maker, is_local, _ = value.__qualname__.partition(".<locals>")
    if is_local and value.__module__ == written.POLICIES_HOME and maker in POLICIES:
        return POLICIES[maker](speller, value)
    return spell_reference(speller, value)


@writes(types.MethodType)
def _spell_method(speller: Speller, value: Any) -> str:
    name = value.__func__.__name__
    if not is_name(name) or getattr(value.__self__, name, None) != value:
        raise Unspellable(value, "the method is not an attribute of its object")
    return f"{speller.spell(value.__self__)}.{name}"


# Remat policies made by a call; JAX keeps some of them as closures.


def _spell_policy(
    speller: Speller, value: Any, *, names: str = "", keywords: tuple[str, ...] = ()
) -> str:
    held = closed_over(value)
    maker = value.__qualname__.partition(".")[0]
    root = f"{speller.imports.module('jax')}.checkpoint_policies.{maker}"
    args = sorted(held[names]) if names else []
    made = {k: _sorted_names(held[k]) for k in keywords}
    return speller.call(root, args, **made)


def _sorted_names(held: Any) -> Any:
    return sorted(held) if type(held) in (set, frozenset) else held


@writes(*jaxapi.POLICY_RECORDS)
def _spell_policy_record(speller: Speller, value: Any) -> str:
    maker, field = jaxapi.POLICY_RECORDS[type(value)]
    root = f"{speller.imports.module('jax')}.checkpoint_policies.{maker}"
    return speller.call(root, sorted(getattr(value, field)))


def _spell_both(speller: Speller, value: Any) -> str:
    held = closed_over(value)
    root = (
        f"{speller.imports.module('jax')}.checkpoint_policies.save_from_both_policies"
    )
    return speller.call(root, [held["policy_1"], held["policy_2"]])


_OFFLOAD = ("offload_src", "offload_dst")

POLICIES: dict[str, Callable[[Speller, Any], str]] = {
    "save_only_these_names": functools.partial(
        _spell_policy, names="names_which_can_be_saved"
    ),
    "save_any_names_but_these": functools.partial(
        _spell_policy, names="names_not_to_save"
    ),
    "save_anything_except_these_names": _spell_policy,
    "offload_dot_with_no_batch_dims": functools.partial(
        _spell_policy, keywords=_OFFLOAD
    ),
    "save_and_offload_only_these_names": functools.partial(
        _spell_policy,
        keywords=(
            "names_which_can_be_saved",
            "names_which_can_be_offloaded",
            *_OFFLOAD,
        ),
    ),
    "save_from_both_policies": _spell_both,
}


def _spell_tuple_object(speller: Speller, value: Any) -> str:
    """Write an instance of a tuple class that is no named tuple."""
    try:
        return spell_rebuilt(speller, value, tuple(value), {})
    except Unspellable:
        return spell_rebuilt(speller, value, [tuple(value)], {})


def _choose(kind: type) -> Writer:
    is_bare_tuple = tuple in kind.__mro__ and not hasattr(kind, "_fields")
    return _spell_tuple_object if is_bare_tuple else _spell_object


FALLBACKS.append(_choose)
