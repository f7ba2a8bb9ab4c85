"""What a function sees around it: globals, and what it may change that others hold."""

from __future__ import annotations

import builtins
import dis
import functools
import types
from typing import Any

import numpy as np

from untrace import jaxapi


@functools.cache
def global_names(code: types.CodeType, access: str = "") -> frozenset[str]:
    """Return the globals that a code object, or one inside it, reads or writes.

    Args:
      access: How: "LOAD", "STORE" or "DELETE"; any way if empty.
    """
    wanted = [f"{access}_GLOBAL"]
    if access in ("", "LOAD"):
        # Bodies of classes read their own names, or else the module's.
        wanted += ["LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"]
    steps = [
        step
        for step in dis.get_instructions(code)
        if any(name in step.opname for name in wanted)
    ]
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return frozenset(step.argval for step in steps).union(
        *[global_names(const, access) for const in inner]
    )


def written_globals(function: Any) -> frozenset[str]:
    """Return the names of what a function itself changes in its module: its state."""
    code = function.__code__
    return global_names(code, "STORE") | global_names(code, "DELETE")


def seen_globals(function: Any) -> tuple[tuple[str, Any], ...]:
    """List what a function sees of its module, and of builtins if they are its own."""
    space = function.__globals__
    if function.__builtins__ is not vars(builtins):
        space = {**function.__builtins__, **space}
    names = sorted(global_names(function.__code__) & space.keys())
    return tuple([(f"global {name}", space[name]) for name in names])


_CHANGEABLE = frozenset({list, dict, set, bytearray, np.ndarray})


def changeable(value: Any) -> tuple[Any, ...]:
    """List the objects by which functions that hold `value` may act on each other."""
    if isinstance(value, types.FunctionType):
        return () if jaxapi.is_of_jax(value) else value.__closure__ or ()
    while isinstance(value, np.ndarray) and isinstance(value.base, np.ndarray):
        value = value.base  # views of one buffer
    return (value,) if type(value) in _CHANGEABLE else ()


def changes_nothing(function: Any) -> bool:
    """Whether a function is one of JAX, such as a policy, which only reads what it holds."""
    return isinstance(function, types.FunctionType) and jaxapi.is_of_jax(function)


@functools.cache
def names_in(code: types.CodeType) -> frozenset[str]:
    """Return all names that a code object, or one inside it, has for anything."""
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return frozenset(code.co_names).union(*map(names_in, inner))
