"""Loops, branches, barriers, and functions that stand for an operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax import lax

from untrace.jaxapi.module_types import Record, Text
from untrace.readers.stablehlo.calls import Call, Function

Template = Callable[..., Any]


def while_loop(call: Call, *carried: Any) -> Any:
    """State a loop over what its body changes; the rest is seen from outside."""
    condition, body = call.region(0), call.region(1)
    return lax.while_loop(
        lambda values: condition(*values)[0],
        lambda values: tuple(body(*values)),
        carried,
    )


def branches(call: Call) -> list[Callable[[], tuple[Any, ...]]]:
    """Return the branches, each a function of no arguments."""

    def branch(function: Function) -> Callable[[], tuple[Any, ...]]:
        return lambda: tuple(function())

    return [branch(call.region(i)) for i in range(call.n_regions())]


def if_(call: Call, predicate: Any) -> Any:
    """State a choice by a predicate."""
    yes, no = branches(call)
    return lax.cond(predicate, yes, no)


def optimization_barrier(call: Call, *operands: Any) -> Any:
    """State a barrier."""
    return lax.optimization_barrier(operands)


def composite(
    call: Call, decomposition: Callable[..., list[Any]], *operands: Any
) -> Any:
    """State an operation that is defined by a function."""
    call.ignore("decomposition")
    attributes = call.get("composite_attributes") or Record("dict", ())
    name, version = str(call["name"]), int(call.get("version") or 0)
    if any(isinstance(value, Text | Record) for _, value in attributes.fields):
        return decomposition(*operands)

    def decomposed(*args: Any, **_: Any) -> Any:
        results = decomposition(*args)
        return results[0] if len(results) == 1 else tuple(results)

    return lax.composite(decomposed, name, version)(*operands, **attributes.plain())


CONTROL: dict[str, Template] = {
    "stablehlo.if": if_,
    "stablehlo.optimization_barrier": optimization_barrier,
    "stablehlo.while": while_loop,
}
