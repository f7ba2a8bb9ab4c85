"""Name a number after the parameter of the public function that takes it."""

from __future__ import annotations

import inspect
from typing import Any

import jax

from untrace.lifting.recorded.unify.places import Number, taken_by
from untrace.syntax.parsed import Parsed

_ROOTS = {"jax": jax, "jnp": jax.numpy}
_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)
_SHAPES = frozenset({"shape", "new_sizes"})  # of which a number is one size


def argument_name(body: Parsed, number: Number) -> str:
    """Return the parameter that takes a number by position; "" if none does.

    The number may stand in a tuple that is passed.
    """
    called, index = taken_by(body, number)
    root, *path = called.split(".")
    function: Any = _ROOTS.get(root)
    for name in path:
        function = getattr(function, name, None)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # no function, or one without a signature
        return ""
    if index >= len(parameters) or parameters[index].kind not in _POSITIONAL:
        return ""
    name = parameters[index].name
    return "size" if name in _SHAPES else name if len(name) > 2 else ""
