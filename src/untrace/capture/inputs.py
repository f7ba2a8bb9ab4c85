"""Which leaves of arguments are inputs of the jaxpr, and which of results its outputs.

The others are closed over.

Python numbers are inputs, as under `jax.jit`, unless the function needs to know them, or
a module of equinox holds them: there they are settings, such as the rate of a dropout,
which have no derivatives and no state in an optimizer.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import Any

import jax

from untrace import jaxapi

_NUMBERS = (bool, int, float, complex)


def are_dynamic(values: Sequence[Any], fixed: Collection[type]) -> list[bool]:
    """Tell of each leaf whether it is an input of the jaxpr, or an output.

    Args:
      values: The arguments, or the result.
      fixed: The types of Python numbers that are not.
    """
    flags: list[bool] = []
    for part in jax.tree.leaves(list(values), is_leaf=is_module):
        closed = _NUMBERS if is_module(part) else fixed
        flags += [
            type(leaf) not in closed and jaxapi.is_traceable(leaf)
            for leaf in jax.tree.leaves(part)
        ]
    return flags


def is_module(value: Any) -> bool:
    """Whether a value is a module of equinox, which splits arrays from the rest."""
    equinox = sys.modules.get("equinox")
    return equinox is not None and isinstance(value, equinox.Module)


def has_state(value: Any) -> bool:
    """Whether a value is a module of flax.nnx, whose state is a dict of its own."""
    nnx = sys.modules.get("flax.nnx")
    return nnx is not None and isinstance(value, getattr(nnx, "Pytree", nnx.Module))


def is_stateful(value: Any) -> bool:
    """Whether a value is a module or a variable of flax.nnx, made to be changed."""
    nnx = sys.modules.get("flax.nnx")
    return has_state(value) or (nnx is not None and isinstance(value, nnx.Variable))
