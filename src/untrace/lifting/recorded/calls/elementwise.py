"""Write `jax.vmap(jnp.tanh)(x)` of a library as `jnp.tanh(x)`.

A function of single elements makes the same equations mapped and unmapped, if neither it
nor its derivative rule makes arrays of the shape of its argument, as `jax.nn.relu` does.
`tests/lifting/test_respelling.py` checks that of each on every version of JAX.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp

from untrace import jaxapi
from untrace.lifting.recorded.calls.usual_types import PROMOTING
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
