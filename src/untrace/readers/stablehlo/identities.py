"""What of operations counts when two are compared, and what is the same by definition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from untrace.jaxapi.module_types import (
    Block,
    Module,
    Operation,
    Record,
    TensorType,
    Value,
)

CALLS = ("func.call", "call")

KEEPING = ("stablehlo.convert", "stablehlo.reshape", "stablehlo.broadcast_in_dim")
SHARDINGS = {"sdy.sharding", "mhlo.sharding"}
_OVER_NOTHING = "#sdy.sharding<@empty_mesh,"
MOVES = {"broadcast_dimensions"}
_EFFECTS = {
    *("stablehlo.infeed", "stablehlo.outfeed", "stablehlo.send", "stablehlo.recv"),
    "stablehlo.rng",
}


HOST_CALL = "xla_ffi_python_cpu_callback"
"""What a function of Python on the host is called by."""
ORDER = "untrace.order"
"""The attribute that says by which order of effects an operation is ordered."""


def calls_host(module: Module) -> bool:
    """Whether a module calls functions on the host."""
    return any(
        operation.attributes.get("call_target_name") == HOST_CALL
        for operation in module.operations()
    )


def has_effects(operation: Operation) -> bool:
    """Whether an operation does more than compute its results."""
    return operation.name in _EFFECTS or bool(
        operation.attributes.get("has_side_effect")
    )


def as_general(dot: Operation) -> Operation:
    """Return the older product of vectors and matrices as the general one."""
    left = dot.operands[0].type
    last = len(left.shape) - 1 if isinstance(left, TensorType) else 0
    fields = (
        ("lhs_batching_dimensions", ()),
        ("rhs_batching_dimensions", ()),
        ("lhs_contracting_dimensions", (last,)),
        ("rhs_contracting_dimensions", (0,)),
    )
    numbers = Record("#stablehlo.dot", fields)
    return replace(dot, attributes={**dot.attributes, "dot_dimension_numbers": numbers})


def keeps_order(operation: Operation) -> bool:
    """Whether a bitcast of MHLO is a reshape: both layouts are those of rows."""
    layouts = [
        operation.attributes.get(f"{end}_layout") for end in ("source", "result")
    ]
    return all(
        isinstance(one, tuple) and [*one] == [*range(len(one))][::-1] for one in layouts
    )


def is_in_place(operation: Operation) -> bool:
    """Whether an operation is a transposition that moves nothing."""
    order = operation.attributes.get("permutation")
    is_transpose = operation.name == "stablehlo.transpose"
    return is_transpose and order == tuple(range(len(order or ())))


def is_sharded(module: Module) -> bool:
    """Whether a module says how values are spread over devices."""
    if int(module.attributes.get("mhlo.num_partitions", 1)) > 1:
        return True
    return any(
        operation.name == "sdy.sharding_constraint"
        and not str(operation.attributes.get("sharding", "")).startswith(_OVER_NOTHING)
        for operation in module.operations()
    )


def unchanged_values(module: Module, body: Block) -> list[int]:
    """Return which carried values the body of a loop hands on as they are."""
    known = _definitions(body)
    return [
        index
        for index, (argument, value) in enumerate(zip(body.arguments, body.returned))
        if _source(module, known, value) is argument
    ]


def _definitions(block: Block) -> dict[Value, Operation]:
    return {value: one for one in block.operations for value in one.results}


def _source(module: Module, known: dict[Value, Operation], value: Value) -> Value:
    """Return what a value is the same as in its block, through calls and loops."""
    while (found := known.get(value)) is not None:
        index = found.results.index(value)
        if found.name in CALLS:
            inner = module.functions[found.attributes["callee"]].block
        elif found.name == "stablehlo.while":
            inner = found.regions[1]
        else:
            break
        source = _source(module, _definitions(inner), inner.returned[index])
        at = inner.arguments.index(source) if source in inner.arguments else None
        if at is None or (found.name not in CALLS and at != index):
            break
        value = found.operands[at]
    return value


def exact(value: Any) -> Any:
    """Return what equals only attributes that are the same, down to types and bits."""
    if isinstance(value, dict):
        return tuple(sorted((str(k), exact(v)) for k, v in value.items()))
    if isinstance(value, Record):
        return value.kind, tuple((k, exact(v)) for k, v in value.fields)
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, TensorType):
        return "tensor", value.shape, str(value.dtype)
    if isinstance(value, tuple):
        return ("tuple", *map(exact, value))
    if isinstance(value, float):
        return "float", value.hex()
    return type(value).__name__, str(value)
