"""Name the results of calls that the user gave no name."""

from __future__ import annotations

import jax

from untrace import jaxapi
from untrace.capture.origins import function_name
from untrace.lifting.recorded.calls.operators import unreflected
from untrace.optional import gives, optional
from untrace.recovery.functions import innermost
from untrace.recovery.record import Call
from untrace.syntax.names import identifier

# Nouns for the results of common functions, where the user gave them no name.
HINTS = {
    "sum": "total",
    "add": "total",
    "sub": "difference",
    "mul": "product",
    "truediv": "quotient",
    "matmul": "product",
    "dot": "product",
    "einsum": "product",
    "exp": "exponential",
    "sqrt": "root",
    "pow": "power",
    "getitem": "item",
    "reshape": "reshaped",
    "transpose": "transposed",
    "astype": "converted",
    "concatenate": "joined",
    "where": "selected",
    "value_and_grad": "value_and_grad",
    "grad": "grads",
    "split": "parts",
    "pure_callback": "answer",
    "io_callback": "answer",
    "map": "mapped",
    "vmap": "mapped",
    "pmap": "mapped",
    "tree_map": "mapped",
    "index_in_dim": "row",
    "fold_in": "key",
}


@optional(gives("value"))
def result_hint(item: Call) -> str:
    """Name a result that the user gave no name."""
    function = item.function
    if function is jax.random.split:
        return "keys"
    if function is None and item.bodies[0].code.co_name == "__call__":
        return "y"  # of a layer
    if function is None:
        return identifier(item.bodies[0].code.co_name.strip("<>_")) + "_out"
    if isinstance(function, jaxapi.Transformed):
        name = function.maker[1]
        plain = innermost(function) if name in ("jit", "vmap", "pmap") else None
        if plain is not None and plain.__name__ != "<lambda>":
            return identifier(plain.__name__.strip("_")) + "_out"
    else:
        name = getattr(function, "name", "") or function_name(function)
    name = name.strip("_")
    name = unreflected(name)
    return identifier(HINTS.get(name, name))
