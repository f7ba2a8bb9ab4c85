"""Arguments of functions with rules, which JAX gives to the rules by position."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax

from untrace.lifting.recorded.functions.function_values import mark


def positional_arguments(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Give all arguments by position, defaults as well, as JAX does for the rules."""
    try:
        bound = inspect.signature(function.fun).bind(*args, **kwargs)
    except (TypeError, ValueError):  # of a function that tells nothing
        return args, kwargs
    bound.apply_defaults()
    return (args, kwargs) if bound.kwargs else (bound.args, {})


def kind(args: Sequence[Any], fixed: Collection[int] = ()) -> Any:
    """Return what tells kinds of arguments apart: trees, shapes and dtypes.

    What is at `fixed` positions is left out.
    """
    traced = [None if i in fixed else value for i, value in enumerate(args)]
    return mark(jax.tree.map(_type, traced))


def _type(leaf: Any) -> tuple[Any, ...]:
    return getattr(leaf, "shape", ()), str(getattr(leaf, "dtype", type(leaf)))
