"""Name a number after the parameter of the public function that takes it."""

from __future__ import annotations

import inspect
import re
from typing import Any

import jax

from untrace.lifting.recorded.functions.argument_sizes import called_around

_ROOTS = {"jax": jax, "jnp": jax.numpy}
_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)
_SHAPES = frozenset({"shape", "new_sizes"})  # of which a number is one size


def argument_name(text: str, place: re.Match[str]) -> str:
    """Return the parameter that takes the number at a place by position; "" if none does.

    The number may stand in a tuple that is passed.
    """
    called, index = called_around(text, place)
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
