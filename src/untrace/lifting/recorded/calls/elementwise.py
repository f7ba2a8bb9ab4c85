"""Write `jax.vmap(jnp.tanh)(x)` of a library as `jnp.tanh(x)`, and `jax.tree.map` of it, too.

A function of single elements makes the same equations mapped and unmapped, if neither it
nor its derivative rule makes arrays of the shape of its argument, as `jax.nn.relu` does.
`tests/lifting/test_respelling.py` checks that of each on every version of JAX.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from untrace import jaxapi
from untrace.lifting.recorded.calls.usual_types import PROMOTING
from untrace.lifting.recorded.naming.values import is_array
from untrace.lifting.spelling.homes import public_name
from untrace.optional import optional, unchanged
from untrace.recovery.record import Call

_ACTIVATIONS = frozenset(
    {
        "celu",
        "gelu",
        "leaky_relu",
        "sigmoid",
        "silu",
        "soft_sign",
        "squareplus",
    }
)
UNARY = [
    *[getattr(jax.nn, name) for name in sorted(_ACTIVATIONS)],
    *[getattr(jnp, name) for name in sorted(PROMOTING)],
]
_AXES = {"in_axes", "out_axes"}
BINARY = [jnp.add, jnp.subtract, jnp.multiply, jnp.divide, jnp.maximum, jnp.minimum]


@optional(unchanged)
def unmapped(item: Call) -> Call:
    """Return a call without a `jax.vmap` that makes no difference; others as they are."""
    made = item.function
    if not isinstance(made, jaxapi.Transformed) or made.maker[1] != "vmap":
        return item
    n_args = len(item.args)
    functions = {1: UNARY, 2: BINARY}.get(n_args, [])
    if item.kwargs or not any(made.function is one for one in functions):
        return item
    axes = made.options.get("in_axes", 0), made.options.get("out_axes", 0)
    if axes[0] not in (0, (0,) * n_args) or axes[1] != 0 or {*made.options} - _AXES:
        return item
    if not all(isinstance(arg, jaxapi.Tracer) for arg in item.args):
        return item
    if len({arg.ndim for arg in item.args}) != 1:
        return item
    return replace(item, function=made.function, bodies=[])


@optional(unchanged)
def of_one_leaf(item: Call) -> Call:
    """Return the public call that mapping over a tree is, or adding one up, of one array."""
    name = getattr(item.function, "__name__", "")
    if item.bodies or not item.args or not jaxapi.is_tree_function(item.function):
        return item
    given = [*item.args, *item.kwargs.values()]
    function, *given = [value for value in given if value is not None]  # `is_leaf`
    if name.endswith("reduce") and len(given) == 2 and type(given[1]) in _NUMBERS:
        given.reverse()  # it begins with the number
    elif not (name.endswith("map") and all(map(is_array, given))):
        return item
    bound: tuple[tuple[Any, ...], dict[str, Any]] = (), {}
    if isinstance(function, functools.partial):
        bound, function = (function.args, function.keywords), function.func
    is_known = public_name(function) is not None and is_array(item.result)
    if not is_known or not is_array(given[-1]):
        return item
    args, kwargs = bound
    return replace(item, function=function, args=(*args, *given), kwargs=kwargs)


_NUMBERS = (bool, int, float, complex)
